// SPDX-License-Identifier: Apache-2.0
// What libcudadevrt's functions call (__cuda_syscall_cnpv2*), as compiled code calls it. A null
// result of ParameterBuffer and an error of the others reach the program by libcudadevrt.
#include <cstring>

#include "cpu-device/exec/block.h"
#include "cpu-device/exec/child_grids.h"
#include "cpu-device/exec/context.h"

namespace farcall::cpu_device {
namespace {

// The device runtime's numbers of a kernel's attributes, in the order of cudaFuncAttributes.
enum class FunctionAttribute : uint32_t {
  kMaxThreads,
  kSharedBytes,
  kConstBytes,
  kLocalBytes,
  kRegisters,
  kPtxVersion,
  kBinaryVersion,
};

// Which thread of the grid: errors are each thread's own.
uint64_t NumberOf(const BlockContext* block, const ThreadContext* thread) {
  const uint32_t* grid = block->launch->grid;
  const uint32_t* at = block->ctaid;
  const uint64_t number = (uint64_t{at[2]} * grid[1] + at[1]) * grid[0] + at[0];
  return number * kMaxThreadsPerBlock + thread->linear;
}

template <typename T>
void Store(BlockContext* block, uint64_t address, T value) {
  CheckAccess(block, address, sizeof(T), 0);
  memcpy(reinterpret_cast<void*>(address), &value, sizeof(T));
}

uint32_t CodeOf(DeviceError error) {
  return static_cast<uint32_t>(error);
}

extern "C" {

uint32_t fc_rt_set_device_error(BlockContext* block, ThreadContext* thread, uint32_t error) {
  block->launch->children->SetError(NumberOf(block, thread), error);
  return error;
}

uint32_t fc_rt_device_error(BlockContext* block, ThreadContext* thread) {
  return block->launch->children->ErrorOf(NumberOf(block, thread));
}

uint64_t fc_rt_parameter_buffer(BlockContext* block, ThreadContext* thread, uint64_t kernel,
                                const Dim3* grid, const Dim3* threads, uint32_t shared_bytes) {
  ChildGrids& children = *block->launch->children;
  DeviceError error = DeviceError::kNone;
  const uint64_t buffer = children.ParameterBuffer(kernel, *grid, *threads, shared_bytes, &error);
  // No launch follows that could tell: cudaErrorInvalidValue, cudaErrorInvalidConfiguration,
  // cudaErrorLaunchMaxDepthExceeded or cudaErrorLaunchPendingCountExceeded.
  if (buffer == 0) {
    const uint32_t code = error == DeviceError::kInvalidValue           ? 1
                          : error == DeviceError::kInvalidConfiguration ? 9
                          : error == DeviceError::kTooDeep              ? 65
                                                                        : 69;
    children.SetError(NumberOf(block, thread), code);
  }
  return buffer;
}

uint32_t fc_rt_launch(BlockContext* block, uint64_t buffer, uint64_t stream) {
  return CodeOf(block->launch->children->Launch(buffer, stream));
}

uint32_t fc_rt_create_handle(BlockContext* block, uint64_t handle, uint32_t) {
  Store(block, handle, block->launch->children->CreateHandle());
  return 0;
}

uint32_t fc_rt_destroy_handle(BlockContext* block, uint64_t handle) {
  return CodeOf(block->launch->children->Destroy(handle) ? DeviceError::kNone
                                                         : DeviceError::kInvalidValue);
}

// Of an event recorded in a stream, or a stream that waits for one: the order of launches keeps
// both.
uint32_t fc_rt_order_handles(BlockContext* block, uint64_t one, uint64_t other) {
  ChildGrids& children = *block->launch->children;
  return CodeOf(children.Knows(one) && children.Knows(other) ? DeviceError::kNone
                                                             : DeviceError::kInvalidValue);
}

uint32_t fc_rt_kernel_attribute(BlockContext* block, uint64_t to, uint32_t attribute,
                                uint64_t kernel) {
  Kernel* found = block->launch->children->KernelAt(kernel);
  if (found == nullptr) return CodeOf(DeviceError::kInvalidValue);
  const KernelInfo& info = found->info();
  switch (static_cast<FunctionAttribute>(attribute)) {
    case FunctionAttribute::kMaxThreads:
      Store<uint32_t>(block, to, info.max_threads_per_block);
      return 0;
    case FunctionAttribute::kSharedBytes:
      Store<uint64_t>(block, to, info.static_shared_bytes);
      return 0;
    case FunctionAttribute::kConstBytes:
      Store<uint64_t>(block, to, info.const_bytes);
      return 0;
    case FunctionAttribute::kLocalBytes:
      Store<uint64_t>(block, to, info.local_bytes);
      return 0;
    case FunctionAttribute::kRegisters:
      Store<uint32_t>(block, to, info.registers);
      return 0;
    case FunctionAttribute::kPtxVersion:
    case FunctionAttribute::kBinaryVersion:
      Store<uint32_t>(block, to, info.ptx_version);
      return 0;
  }
  return CodeOf(DeviceError::kInvalidValue);
}

}  // extern "C"

}  // namespace

const RuntimeSymbol* ChildGridSymbols(unsigned* count) {
  static const RuntimeSymbol kSymbols[] = {
      {"fc_rt_set_device_error", reinterpret_cast<void*>(fc_rt_set_device_error)},
      {"fc_rt_device_error", reinterpret_cast<void*>(fc_rt_device_error)},
      {"fc_rt_parameter_buffer", reinterpret_cast<void*>(fc_rt_parameter_buffer)},
      {"fc_rt_launch", reinterpret_cast<void*>(fc_rt_launch)},
      {"fc_rt_create_handle", reinterpret_cast<void*>(fc_rt_create_handle)},
      {"fc_rt_destroy_handle", reinterpret_cast<void*>(fc_rt_destroy_handle)},
      {"fc_rt_order_handles", reinterpret_cast<void*>(fc_rt_order_handles)},
      {"fc_rt_kernel_attribute", reinterpret_cast<void*>(fc_rt_kernel_attribute)},
  };
  *count = sizeof(kSymbols) / sizeof(kSymbols[0]);
  return kSymbols;
}

}  // namespace farcall::cpu_device
