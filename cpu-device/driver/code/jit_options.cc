// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/code/jit_options.h"

#include <algorithm>
#include <cstring>

namespace farcall::cpu_device {
namespace {

// Numeric option values travel in the pointer itself.
void SetNumber(void** value, size_t number) {
  *value = reinterpret_cast<void*>(number);
}

}  // namespace

bool JitOptions::Read(unsigned count, const CUjit_option* options, void** values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return false;
  char* info_log = nullptr;
  void** info_size = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return false;
    switch (options[i]) {
      case CU_JIT_ERROR_LOG_BUFFER:
        error_log_ = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_log_bytes_ = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
        error_log_size_ = &values[i];
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        info_log = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_size = &values[i];
        break;
      case CU_JIT_WALL_TIME:
        wall_time_ = &values[i];
        break;
      default:
        break;
    }
  }
  // There is nothing to tell: both logs are empty until an error comes.
  if (info_size != nullptr) {
    if (info_log != nullptr && *info_size != nullptr) *info_log = '\0';
    SetNumber(info_size, 0);
  }
  if (error_log_size_ != nullptr) {
    if (error_log_ != nullptr && error_log_bytes_ != 0) *error_log_ = '\0';
    SetNumber(error_log_size_, 0);
  }
  return true;
}

void JitOptions::ReportError(const std::string& message) const {
  if (error_log_ == nullptr || error_log_bytes_ == 0) return;
  const size_t length = std::min(message.size(), error_log_bytes_ - 1);
  memcpy(error_log_, message.data(), length);
  error_log_[length] = '\0';
  if (error_log_size_ != nullptr) SetNumber(error_log_size_, length + 1);
}

void JitOptions::ReportTime(std::chrono::steady_clock::duration spent) const {
  if (wall_time_ == nullptr) return;
  const float ms = std::chrono::duration<float, std::milli>(spent).count();
  memcpy(wall_time_, &ms, sizeof(ms));
}

}  // namespace farcall::cpu_device
