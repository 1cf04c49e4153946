// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/op.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/executor.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/memop.h"
#include "cpu-device/driver/state/module.h"
#include "cpu-device/driver/state/sparse.h"
#include "cpu-device/driver/state/stream.h"
#include "cpu-device/exec/device_time.h"

namespace farcall::cpu_device {
namespace {

uint8_t* At(uint64_t address) {
  return reinterpret_cast<uint8_t*>(address);
}

template <typename T>
void Fill(uint64_t row, uint32_t value, uint64_t count) {
  std::fill_n(reinterpret_cast<T*>(row), count, static_cast<T>(value));
}

CUresult Do(const EmptyOp&) {
  return CUDA_SUCCESS;
}

std::shared_lock<std::shared_mutex> UseMemory() {
  return std::shared_lock(TheDriver().memory_in_use);
}

CUresult Do(const KernelOp& op) {
  const auto use = UseMemory();
  std::function<void()> on_wait;
  if (const Turn turn = CurrentTurn(); turn.order != nullptr)
    on_wait = [turn] { turn.order->Yield(turn.issued); };
  return ResultOf(op.function->kernel().Run(op.config, op.params.data(), on_wait));
}

CUresult Do(const CopyOp& op) {
  const auto use = UseMemory();
  if (op.height <= 1 && op.depth <= 1) {
    // Overlap is undefined in CUDA; here it must not be undefined in C.
    memmove(At(op.dst), At(op.src), op.width);
    return CUDA_SUCCESS;
  }
  for (uint64_t z = 0; z < op.depth; ++z) {
    for (uint64_t y = 0; y < op.height; ++y) {
      memmove(At(op.dst + (z * op.dst_height + y) * op.dst_pitch),
              At(op.src + (z * op.src_height + y) * op.src_pitch), op.width);
    }
  }
  return CUDA_SUCCESS;
}

CUresult Do(const MemsetOp& op) {
  const auto use = UseMemory();
  for (uint64_t y = 0; y < op.height; ++y) {
    const uint64_t row = op.dst + y * op.pitch;
    if (op.value == 0) {
      SetZero(row, op.width * op.element);
      continue;
    }
    switch (op.element) {
      case 1:
        memset(At(row), static_cast<int>(op.value), op.width);
        break;
      case 2:
        Fill<uint16_t>(row, op.value, op.width);
        break;
      default:
        Fill<uint32_t>(row, op.value, op.width);
        break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult Do(const HostOp& op) {
  CallbackScope inside;
  op.function(op.user_data);
  return CUDA_SUCCESS;
}

CUresult Do(const MemOp& op) {
  for (const CUstreamBatchMemOpParams& one : op.ops) RunMemOp(one);
  return CUDA_SUCCESS;
}

bool TakesDevice(const Op& op) {
  const auto* host = std::get_if<HostOp>(&op);
  return std::holds_alternative<KernelOp>(op) || std::holds_alternative<CopyOp>(op) ||
         std::holds_alternative<MemsetOp>(op) || (host != nullptr && host->is_device_work);
}

Share ShareOf(const Op& op) {
  if (std::holds_alternative<KernelOp>(op) || std::holds_alternative<MemsetOp>(op))
    return Share::kDevice;
  return std::holds_alternative<CopyOp>(op) ? Share::kNone : Share::kWaits;
}

}  // namespace

CUresult Execute(const Op& op, int device) {
  std::optional<DeviceTimer> timer;
  if (TakesDevice(op)) timer.emplace(device);
  return std::visit([](const auto& one) { return Do(one); }, op);
}

CUresult SubmitOp(Stream& stream, Op op, How how) {
  if (stream.capture() != nullptr)
    return how == How::kWait ? RefuseWhileCapturing(stream) : CaptureOp(stream, std::move(op));
  // A shared body: the work is copied with its std::function.
  auto shared = std::make_shared<const Op>(std::move(op));
  const int device = stream.context().device().ordinal;
  return stream.Submit([shared, device] { return Execute(*shared, device); }, how,
                       /*always=*/false, ShareOf(*shared));
}

}  // namespace farcall::cpu_device
