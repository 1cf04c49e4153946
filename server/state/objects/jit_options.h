// SPDX-License-Identifier: Apache-2.0
// What a client may say to the driver's JIT and linker, and the buffers of their logs.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "proto/codec.h"

namespace farcall::server {

inline constexpr size_t kJitLogBytes = 16u << 10;

struct JitOptions {
  std::vector<CUjit_option> options;
  std::vector<void*> values;
  std::string info, error;  // buffers of the logs

  void Add(CUjit_option option, uint64_t value) {
    options.push_back(option);
    values.push_back(reinterpret_cast<void*>(value));
  }
  unsigned count() const { return static_cast<unsigned>(options.size()); }
  void AddLogs();
  // Reads {count, {u32 option, u64 value}...}: plain numbers are taken, what points into a process
  // is left out. False: more than there are.
  bool Decode(Reader& in);
  // {string info, string error}
  void EncodeLogs(Builder& out) const;
};

}  // namespace farcall::server
