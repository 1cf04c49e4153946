// SPDX-License-Identifier: Apache-2.0
// The options of a module load or a link: numbers cross, logs come back, the rest speaks of this
// process.
#pragma once

#include <cuda.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generated/proto/call_id.h"  // generated
#include "proto/codec.h"

namespace farcall::client {

// The application's log buffers, and the options that are plain numbers.
struct Jit {
  std::vector<std::pair<uint32_t, uint64_t>> numbers;
  char *info = nullptr, *error = nullptr;
  size_t info_bytes = 0, error_bytes = 0;
  void** info_size = nullptr;
  void** error_size = nullptr;
  void** wall_time = nullptr;  // milliseconds, a float
  std::string key;
  bool known = true;  // every option is one of CUDA's
};

Jit ReadOptions(unsigned count, CUjit_option* options, void** values);
// {count, {u32 option, u64 value}...}
void PutNumbers(Builder& body, const Jit& jit);
// Into the application's buffers, cut to their sizes; the sizes written go back where theirs stood.
void GiveLogs(const Jit& jit, std::string_view info, std::string_view error);

// What the compiler has taken, where CU_JIT_WALL_TIME asks for it.
void GiveWallTime(const Jit& jit, std::chrono::steady_clock::duration spent);

// Into the log that cuLogs* shows, and to who asked for much.
void NoteJitFailure(CallId call, CUresult status, std::string_view error);

}  // namespace farcall::client
