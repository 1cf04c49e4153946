// SPDX-License-Identifier: Apache-2.0
// A piece of work a stream does or a graph node stands for.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/stream.h"
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {

class Function;

struct EmptyOp {};

struct KernelOp {
  std::shared_ptr<Function> function;
  LaunchConfig config;
  std::vector<uint8_t> params;
};

// A box of bytes between two places. Pitches in bytes, slice heights in rows.
struct CopyOp {
  uint64_t dst = 0, dst_pitch = 0, dst_height = 0;
  uint64_t src = 0, src_pitch = 0, src_height = 0;
  uint64_t width = 0, height = 1, depth = 1;
};

// `height` rows of `width` elements of `element` bytes (1, 2 or 4).
struct MemsetOp {
  uint64_t dst = 0, pitch = 0;
  uint32_t value = 0;
  uint32_t element = 1;
  uint64_t width = 0, height = 1;
};

struct HostOp {
  CUhostFn function = nullptr;
  void* user_data = nullptr;
  bool is_device_work = false;  // what a GPU has an engine for
};

// Values written and waited for, in their order.
struct MemOp {
  std::vector<CUstreamBatchMemOpParams> ops;
};

using Op = std::variant<EmptyOp, KernelOp, CopyOp, MemsetOp, HostOp, MemOp>;

// What takes the device counts as its time; what waits, or is the host's, does not.
//   device  its ordinal
CUresult Execute(const Op& op, int device);

// Queues `op`, or makes a node of it if the stream is capturing (then kWait is an error, as in
// CUDA).
CUresult SubmitOp(Stream& stream, Op op, How how);

}  // namespace farcall::cpu_device
