// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/memop.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <shared_mutex>
#include <thread>
#include <type_traits>

#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

constexpr unsigned kMaxOps = 256;

template <typename T>
bool Reached(T now, T value, unsigned compare) {
  switch (compare) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<T>(~(now | value)) != 0;
    default:
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;
  }
}

template <typename T>
void Wait(CUdeviceptr address, T value, unsigned flags) {
  const std::atomic_ref<T> word(*reinterpret_cast<T*>(address));
  for (int spins = 0; !Reached<T>(word.load(std::memory_order_acquire), value, flags & 3);
       ++spins) {
    // The writer is often another stream of this device: give it the core.
    if (spins < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

template <typename T>
void Write(CUdeviceptr address, T value) {
  std::shared_lock use(TheDriver().memory_in_use);
  std::atomic_ref<T>(*reinterpret_cast<T*>(address)).store(value, std::memory_order_release);
}

CUresult CheckAddress(Context& context, CUdeviceptr address, uint64_t bytes) {
  const bool good = address % bytes == 0 &&
                    TheDriver().ranges.Accessible(address, bytes, context.device().ordinal, true);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Check(Context& context, const CUstreamBatchMemOpParams& op) {
  constexpr unsigned kWaitFlags = 3u | CU_STREAM_WAIT_VALUE_FLUSH;
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      if ((op.waitValue.flags & ~kWaitFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
      return CheckAddress(context, op.waitValue.address,
                          op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      if ((op.writeValue.flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0)
        return CUDA_ERROR_INVALID_VALUE;
      return CheckAddress(context, op.writeValue.address,
                          op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8);
    // Streams and host share one coherent memory.
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult CheckMemOps(Context& context, const CUstreamBatchMemOpParams* ops, unsigned count) {
  if (ops == nullptr || count > kMaxOps) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    if (const CUresult result = Check(context, ops[i])) return result;
  return CUDA_SUCCESS;
}

void RunMemOp(const CUstreamBatchMemOpParams& op) {
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return Wait<uint32_t>(op.waitValue.address, op.waitValue.value, op.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return Wait<uint64_t>(op.waitValue.address, op.waitValue.value64, op.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return Write<uint32_t>(op.writeValue.address, op.writeValue.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return Write<uint64_t>(op.writeValue.address, op.writeValue.value64);
    default:
      return;
  }
}

}  // namespace farcall::cpu_device
