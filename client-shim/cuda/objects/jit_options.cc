// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/objects/jit_options.h"

#include <cstring>
#include <string>

#include "client-shim/core/report/log_ring.h"
#include "generated/proto/call_info.h"

namespace farcall::client {

namespace {

void GiveLog(std::string_view text, char* buffer, size_t bytes, void** size) {
  size_t given = 0;
  if (buffer != nullptr && bytes != 0) {
    given = text.size() < bytes ? text.size() : bytes - 1;
    std::memcpy(buffer, text.data(), given);
    buffer[given++] = '\0';
  }
  if (size != nullptr) *size = reinterpret_cast<void*>(given);
}

}  // namespace

Jit ReadOptions(unsigned count, CUjit_option* options, void** values) {
  Jit jit;
  for (unsigned i = 0; i < count; ++i) {
    void*& value = values[i];
    uint64_t number = reinterpret_cast<uint64_t>(value);
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        jit.info = static_cast<char*>(value);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        jit.info_bytes = static_cast<unsigned>(number);
        jit.info_size = &value;
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        jit.error = static_cast<char*>(value);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        jit.error_bytes = static_cast<unsigned>(number);
        jit.error_size = &value;
        break;
      case CU_JIT_WALL_TIME:
        jit.wall_time = &value;
        break;
      case CU_JIT_GLOBAL_SYMBOL_NAMES:
      case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
      case CU_JIT_THREADS_PER_BLOCK:
        break;  // outputs, or pointers into this process
      default:
        if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) jit.known = false;
        jit.numbers.emplace_back(options[i], static_cast<uint32_t>(number));
        jit.key += '|';
        jit.key += std::to_string(options[i]) + "=" + std::to_string(static_cast<uint32_t>(number));
    }
  }
  return jit;
}

void PutNumbers(Builder& body, const Jit& jit) {
  body.Put<uint64_t>(jit.numbers.size());
  for (auto [id, value] : jit.numbers) {
    body.Put<uint32_t>(id);
    body.Put<uint64_t>(value);
  }
}

void GiveLogs(const Jit& jit, std::string_view info, std::string_view error) {
  GiveLog(info, jit.info, jit.info_bytes, jit.info_size);
  GiveLog(error, jit.error, jit.error_bytes, jit.error_size);
}

void GiveWallTime(const Jit& jit, std::chrono::steady_clock::duration spent) {
  if (jit.wall_time == nullptr) return;
  const float ms = std::chrono::duration<float, std::milli>(spent).count();
  std::memcpy(jit.wall_time, &ms, sizeof(ms));
}

void NoteJitFailure(CallId call, CUresult status, std::string_view error) {
  std::string line = std::string(CallName(call)) + " failed with code " + std::to_string(status);
  if (!error.empty()) line += ": " + std::string(error);
  KeepLogLine(LogLevel::kError, line);
  Log(LogLevel::kInfo, "%s", line.c_str());
}

}  // namespace farcall::client
