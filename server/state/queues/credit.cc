// SPDX-License-Identifier: Apache-2.0
#include "server/state/queues/credit.h"

#include <algorithm>

namespace farcall::server {

namespace {
constexpr uint64_t kMaxCreditAheadBytes = 256u << 20;
}  // namespace

// A program that allocates goes on allocating: as much again as it has taken so far, so that one
// that grows asks seldom. A refusal of the surplus is none.
CUresult Credit::Grant(int device, uint64_t bytes, Window* range, std::string* detail) {
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t free_bytes = memory_.Query(device).free_bytes();
  // Where others may have to leave for it, no more than is asked.
  uint64_t max_ahead = swaps_ ? 0 : kMaxCreditAheadBytes;
  uint64_t ahead = std::min({memory_.granted_bytes(device), max_ahead, free_bytes / 8}) /
                   kChunkGranularityBytes * kChunkGranularityBytes;
  if (ahead != 0 && bytes <= free_bytes - ahead)
    result = memory_.Grant(device, bytes, range, detail, ahead);
  if (result != CUDA_SUCCESS) result = memory_.Grant(device, bytes, range, detail);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && hooks_.make_room(device, bytes))
    result = memory_.Grant(device, bytes, range, detail);
  return result;
}

// A quota too small for it is no error.
Window Credit::First(int device) {
  if (!memory_.has_window() || first_bytes_ == 0) return {};
  const uint64_t bytes =
      std::min(first_bytes_, memory_.Query(device).free_bytes() / 4 / kChunkGranularityBytes *
                                 kChunkGranularityBytes);
  Window range;
  std::string detail;
  if (bytes == 0 || memory_.Grant(device, bytes, &range, &detail) != CUDA_SUCCESS) return {};
  return range;
}

Window Credit::Welcome() {
  const Window range = swaps_ ? Window() : First(0);
  welcomed_ = range.bytes != 0;
  return range;
}

// Its program will want memory, unless it has the first already.
bool Credit::WantsFirst(int device) {
  return device != 0 || !welcomed_.exchange(false);
}

void Credit::PushFirst(int device) {
  const Window range = First(device);
  if (range.bytes != 0) hooks_.push(device, range);
}

}  // namespace farcall::server
