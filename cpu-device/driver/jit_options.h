// SPDX-License-Identifier: Apache-2.0
// The options of a module load: all of CUDA's are taken, those about logs have an effect.
#pragma once

#include <string>

#include "cpu-device/driver/api.h"

namespace farcall::cpu_device {

class JitOptions {
 public:
  // false: an option CUDA does not have, or a missing array.
  bool Read(unsigned count, const CUjit_option* options, void** values);
  // Writes `message` into the caller's error log buffer, if it gave one.
  void ReportError(const std::string& message) const;

 private:
  char* error_log_ = nullptr;
  size_t error_log_bytes_ = 0;
  void** error_log_size_ = nullptr;  // where the bytes written are told
};

// The PTX, or machine code, of an image for this process's profile; failures are logged and told to
// `jit`.
CUresult CodeOf(const void* image, std::string* code, const JitOptions& jit);
bool ReadFile(const char* path, std::string* bytes);

}  // namespace farcall::cpu_device
