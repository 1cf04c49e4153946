// SPDX-License-Identifier: Apache-2.0
// The options of a module load: all of CUDA's are taken, those about logs have an effect.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "cpu-device/driver/base/api.h"

namespace farcall::cpu_device {

class JitOptions {
 public:
  // false: an option CUDA does not have, or a missing array.
  bool Read(unsigned count, const CUjit_option* options, void** values);
  // Writes `message` into the caller's error log buffer, if it gave one.
  void ReportError(const std::string& message) const;
  // Tells what the load or the link has taken so far, if the caller asked for it.
  void ReportTime(std::chrono::steady_clock::duration spent) const;

 private:
  char* error_log_ = nullptr;
  size_t error_log_bytes_ = 0;
  void** error_log_size_ = nullptr;  // where the bytes written are told
  void** wall_time_ = nullptr;       // a float, milliseconds
};

// Reports the time from here to the end of its scope.
class JitClock {
 public:
  explicit JitClock(const JitOptions& jit) : jit_(jit) {}
  ~JitClock() { jit_.ReportTime(std::chrono::steady_clock::now() - start_); }
  JitClock(const JitClock&) = delete;
  JitClock& operator=(const JitClock&) = delete;

 private:
  const JitOptions& jit_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The PTX, or machine code, of an image for this process's profile; failures are logged and told to
// `jit`. PTX that is given as text is checked as CheckText has it.
CUresult CodeOf(const void* image, std::string* code, const JitOptions& jit);
// Whether `ptx` is valid, with the bodies of all its functions; a failure is logged and told to
// `jit`. A device that executes nothing reads declarations alone: it takes instructions of any PTX.
//   Errors  INVALID_PTX
CUresult CheckText(const std::string& ptx, const JitOptions& jit);
bool ReadFile(const char* path, std::string* bytes);

}  // namespace farcall::cpu_device
