// SPDX-License-Identifier: Apache-2.0
// The server's answers, kept. The first question about a device brings what programs usually ask
// next; a question whose answer has grown old brings those along that were asked beside it: a
// monitor's round is one round trip.
#pragma once

#include <nvml.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "generated/proto/nvml_call.h"
#include "proto/codec.h"

namespace farcall::nvml {

// A run of bytes as questions and answers hold them: its length, itself, padding.
inline void PutRun(Builder* to, const void* data, size_t bytes) {
  to->PutBytes(data, bytes);
  to->mutable_bytes().resize(AlignUp(to->bytes().size(), 8));
}

// How long an answer holds; codegen/spec/nvml.yaml has the words.
enum class NvmlClass : uint8_t { kFixed, kSampled, kTenant, kLive };

// NVML's own figures change at best some times a second.
inline constexpr uint64_t kSampledNs = 50'000'000;

// The answer to `question` (see SessionCall::kNvml), from the cache or the server. `device` -1:
// about no device.
//   Errors  what NVML answered, or that the session is gone
nvmlReturn_t FindAnswer(NvmlCall call, NvmlClass klass, int device,
                        std::span<const std::byte> question, std::vector<std::byte>* outputs);

// Around fork.
void LockCache();
void UnlockCache();
void ForgetCache();  // in the child

}  // namespace farcall::nvml
