// SPDX-License-Identifier: Apache-2.0
// cuLogs*: what went wrong in this process, in the shim's own words.
#include <cstdio>
#include <cstring>
#include <string>

#include "client-shim/core/report/log_ring.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

// `iterator` null: all there is.
uint32_t Start(const CUlogIterator* iterator) {
  return iterator != nullptr ? *iterator : LogBegin();
}

}  // namespace

CUresult Call_cuLogsRegisterCallback(CUlogsCallback callbackFunc, void* userData,
                                     CUlogsCallbackHandle* callback_out) {
  if (callbackFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t id = AddLogListener([callbackFunc, userData](LogLevel level, std::string_view line) {
    std::string text(line);
    callbackFunc(userData, level == LogLevel::kError ? CU_LOG_LEVEL_ERROR : CU_LOG_LEVEL_WARNING,
                 text.data(), text.size());
  });
  if (callback_out != nullptr) *callback_out = reinterpret_cast<CUlogsCallbackHandle>(id);
  return CUDA_SUCCESS;
}

CUresult Call_cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return RemoveLogListener(reinterpret_cast<uint64_t>(callback)) ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult Call_cuLogsCurrent(CUlogIterator* iterator_out, unsigned int flags) {
  if (iterator_out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *iterator_out = LogEnd();
  return CUDA_SUCCESS;
}

CUresult Call_cuLogsDumpToFile(CUlogIterator* iterator, const char* pathToFile,
                               unsigned int flags) {
  if (pathToFile == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  uint32_t next = 0;
  std::string text = LogLinesFrom(Start(iterator), ~size_t{0}, &next);
  FILE* file = std::fopen(pathToFile, "we");
  if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = std::fclose(file) == 0 && written;
  if (!written) return CUDA_ERROR_INVALID_VALUE;
  if (iterator != nullptr) *iterator = next;
  return CUDA_SUCCESS;
}

CUresult Call_cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size,
                                 unsigned int flags) {
  if (buffer == nullptr || size == nullptr || *size == 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  uint32_t start = Start(iterator), next = 0;
  std::string text = LogLinesFrom(start, *size - 1, &next);
  bool any = start != next;
  *buffer = '\0';
  *size = 0;
  if (text.empty()) return any ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  *size = text.size();
  if (iterator != nullptr) *iterator = next;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
