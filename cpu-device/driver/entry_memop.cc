// SPDX-License-Identifier: Apache-2.0
// Values written and waited for in stream order.
#include <atomic>
#include <chrono>
#include <thread>

#include "cpu-device/driver/api.h"
#include "cpu-device/driver/context.h"
#include "cpu-device/driver/device.h"
#include "cpu-device/driver/graph.h"
#include "cpu-device/driver/stream.h"

namespace farcall::cpu_device {
namespace {

template <typename T>
bool Reached(T now, T value, unsigned compare) {
  switch (compare) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return ~(now | value) != 0;
    default:
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;
  }
}

template <typename T>
CUresult Wait(Stream& stream, CUdeviceptr address, T value, unsigned flags) {
  const unsigned compare = flags & 3;
  const auto work = [address, value, compare] {
    auto now = [&] {
      return std::atomic_ref<T>(*reinterpret_cast<T*>(address)).load(std::memory_order_acquire);
    };
    for (int spins = 0; !Reached<T>(now(), value, compare); ++spins) {
      // The writer is often another stream of this device: give it the core.
      if (spins < 100) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    return CUDA_SUCCESS;
  };
  return stream.Submit(work, How::kQueue);
}

template <typename T>
CUresult Write(Stream& stream, CUdeviceptr address, T value) {
  const auto work = [address, value] {
    std::atomic_ref<T>(*reinterpret_cast<T*>(address)).store(value, std::memory_order_release);
    return CUDA_SUCCESS;
  };
  return stream.Submit(work, How::kInlineIfIdle);
}

CUresult Enter(CUstream handle, CUdeviceptr address, uint64_t bytes,
               std::shared_ptr<Stream>* stream) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *stream = context->FindStream(handle);
  if (*stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (address % bytes != 0 ||
      !TheDriver().ranges.Accessible(address, bytes, context->device().ordinal, true)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return RefuseWhileCapturing(**stream);
}

template <typename T>
CUresult EnterWait(CUstream handle, CUdeviceptr address, T value, unsigned flags) {
  std::shared_ptr<Stream> stream;
  if ((flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = Enter(handle, address, sizeof(T), &stream)) return result;
  return Wait<T>(*stream, address, value, flags);
}

template <typename T>
CUresult EnterWrite(CUstream handle, CUdeviceptr address, T value, unsigned flags) {
  std::shared_ptr<Stream> stream;
  if ((flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = Enter(handle, address, sizeof(T), &stream)) return result;
  return Write<T>(*stream, address, value);
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned int flags) {
  return EnterWait<uint32_t>(stream, address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned int flags) {
  return EnterWait<uint64_t>(stream, address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned int flags) {
  return EnterWrite<uint32_t>(stream, address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned int flags) {
  return EnterWrite<uint64_t>(stream, address, value, flags);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* ops,
                               unsigned int flags) {
  if (ops == nullptr || count > 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    const auto& wait = ops[i].waitValue;
    const auto& write = ops[i].writeValue;
    switch (ops[i].operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        result = cuStreamWaitValue32_v2(stream, wait.address, wait.value, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        result = cuStreamWaitValue64_v2(stream, wait.address, wait.value64, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        result = cuStreamWriteValue32_v2(stream, write.address, write.value, write.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        result = cuStreamWriteValue64_v2(stream, write.address, write.value64, write.flags);
        break;
      // Streams and host share one coherent memory.
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        result = CUDA_SUCCESS;
        break;
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
