// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/mbarrier.h"

namespace farcall::cpu_device {
namespace {

constexpr uint64_t kMask = kMbarrierMaxCount;
constexpr int64_t kMaxBytes = kMbarrierMaxCount;
constexpr char kUninitialised[] = "the mbarrier is not initialised";

struct Fields {
  uint32_t pending, expected;
  int64_t bytes;
  bool phase, valid;

  explicit Fields(uint64_t word)
      : pending(static_cast<uint32_t>(word & kMask)),
        expected(static_cast<uint32_t>(word >> 20 & kMask)),
        bytes(static_cast<int64_t>(word << 2) >> 42),
        phase(word >> kMbarrierPhaseBit & 1),
        valid(word >> 63) {}
  uint64_t Word() const {
    return pending | uint64_t{expected} << 20 |
           (static_cast<uint64_t>(bytes) & ((1u << 22) - 1)) << 40 |
           uint64_t{phase} << kMbarrierPhaseBit | uint64_t{valid} << 63;
  }
  bool CompleteIfDone() {
    if (pending != 0 || bytes != 0) return false;
    phase = !phase;
    pending = expected;
    return true;
  }
};

}  // namespace

const char* InitMbarrier(uint64_t* object, uint32_t count) {
  if (count == 0 || count > kMbarrierMaxCount) return "the count is not between 1 and 1048575";
  Fields fields(0);
  fields.pending = fields.expected = count;
  fields.valid = true;
  *object = fields.Word();
  return nullptr;
}

const char* AddMbarrierBytes(uint64_t* object, int64_t bytes) {
  Fields fields(*object);
  if (!fields.valid) return kUninitialised;
  fields.bytes += bytes;
  if (fields.bytes > kMaxBytes || fields.bytes < -kMaxBytes)
    return "more than 1048575 bytes are expected";
  if (bytes < 0) fields.CompleteIfDone();
  *object = fields.Word();
  return nullptr;
}

const char* ArriveAtMbarrier(uint64_t* object, uint32_t count, uint32_t flags) {
  Fields fields(*object);
  if (!fields.valid) return kUninitialised;
  if (flags & kMbarrierIncrement) ++fields.pending;
  if (count == 0 || count > fields.pending) return "more arrivals than are pending";
  if (flags & kMbarrierDrop) {
    if (count > fields.expected) return "more arrivals are dropped than are expected";
    fields.expected -= count;
  }
  fields.pending -= count;
  if (fields.CompleteIfDone() && (flags & kMbarrierNoComplete))
    return "an arrival with .noComplete ends the phase";
  *object = fields.Word();
  return nullptr;
}

}  // namespace farcall::cpu_device
