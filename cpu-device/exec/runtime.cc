// SPDX-License-Identifier: Apache-2.0
// Non-arithmetic helpers of compiled kernels and the table of everything they may call.
#include "cpu-device/exec/runtime.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "cpu-device/exec/block.h"
#include "cpu-device/exec/block_matrix_ops.h"
#include "cpu-device/exec/block_warp_ops.h"
#include "cpu-device/exec/child_grids.h"
#include "cpu-device/exec/cluster.h"
#include "cpu-device/exec/device_heap.h"
#include "cpu-device/exec/device_output.h"
#include "cpu-device/exec/executor.h"
#include "cpu-device/exec/fault.h"
#include "cpu-device/exec/runtime_async.h"
#include "cpu-device/exec/runtime_texture.h"
#include "cpu-device/exec/tensor_map.h"

namespace farcall::cpu_device {

namespace {

bool Within(uint64_t address, uint64_t bytes, const void* base, uint64_t size) {
  const uint64_t offset = address - reinterpret_cast<uint64_t>(base);
  return offset < size && bytes <= size - offset;
}

// In what the executor itself knows of: device memory, and what is this block's.
bool InOwnWindows(BlockContext* block, uint64_t address, uint64_t bytes) {
  const LaunchContext* launch = block->launch;
  const ExecutorOptions& options = Options();
  auto within = [&](uint64_t base, uint64_t size) {
    return Within(address, bytes, reinterpret_cast<void*>(base), size);
  };
  return within(launch->window_begin, launch->window_size) ||
         within(options.device_window_begin,
                options.device_window_end - options.device_window_begin) ||
         OwnerOfShared(block, address, bytes) ||
         Within(address, bytes, block->local, block->local_bytes * block->local_threads) ||
         Within(address, bytes, launch->params, launch->param_bytes) ||
         (launch->grid_workspace && within(launch->grid_workspace, kGridWorkspaceBytes));
}

}  // namespace

void CheckAccess(BlockContext* block, uint64_t address, uint32_t bytes, uint32_t line) {
  if (address & (bytes - 1)) {
    RaiseFault(ExecStatus::kMisaligned, "misaligned %u-byte access to 0x%llx (PTX line %u)", bytes,
               static_cast<unsigned long long>(address), line);
  }
  if (InOwnWindows(block, address, bytes)) return;
  const ExecutorOptions& options = Options();
  if (options.is_device_address) {
    if (options.is_device_address(address) && options.is_device_address(address + bytes - 1))
      return;
  } else if (options.device_window_end == 0 && address >= 4096) {
    return;
  }
  RaiseFault(ExecStatus::kIllegalAddress, "illegal %u-byte access to 0x%llx (PTX line %u)", bytes,
             static_cast<unsigned long long>(address), line);
}

uint32_t ReachesAll(BlockContext* block, uint64_t first, uint64_t last, uint32_t bytes) {
  const uint64_t low = std::min(first, last), span = std::max(first, last) - low + bytes;
  if ((first & (bytes - 1)) != 0 || span < bytes) return 0;
  const ExecutorOptions& options = Options();
  if (options.range_version) {
    const uint64_t version = options.range_version->load(std::memory_order_acquire);
    for (const KnownRange& range : block->known) {
      const uint64_t offset = low - range.begin;
      if (offset < range.bytes && span <= range.bytes - offset && range.version == version)
        return 1;
    }
  }
  if (InOwnWindows(block, low, span)) return 1;
  KnownRange found;
  if (!options.find_range || !options.find_range(low, span, &found)) return 0;
  block->known[block->next_known++ % std::size(block->known)] = found;
  return 1;
}

void WindowFault(const char* space, uint64_t offset, uint64_t size, uint32_t bytes, uint32_t line) {
  if (offset & (bytes - 1)) {
    RaiseFault(ExecStatus::kMisaligned,
               "misaligned %u-byte access to %s offset 0x%llx (PTX line %u)", bytes, space,
               static_cast<unsigned long long>(offset), line);
  }
  RaiseFault(ExecStatus::kIllegalAddress,
             "%u-byte access to %s offset 0x%llx, the %s window has %llu bytes (PTX line %u)",
             bytes, space, static_cast<unsigned long long>(offset), space,
             static_cast<unsigned long long>(size), line);
}

namespace {

extern "C" {

void fc_rt_window_fault(uint64_t offset, uint64_t size, uint32_t bytes, uint32_t line_and_space) {
  WindowFault((line_and_space >> 31) ? "local" : "shared", offset, size, bytes,
              line_and_space & 0x7fffffff);
}

void fc_rt_trap(uint32_t line) {
  RaiseFault(ExecStatus::kTrap, "trap (PTX line %u)", line);
}
void fc_rt_bad_call(uint64_t target, uint32_t line) {
  RaiseFault(ExecStatus::kIllegalAddress, "call through 0x%llx, which is no function (PTX line %u)",
             static_cast<unsigned long long>(target), line);
}
void fc_rt_cancelled() {
  RaiseCancelled();
}
void fc_rt_stack_overflow(uint64_t wanted, uint64_t limit) {
  RaiseFault(ExecStatus::kStackOverflow, "local stack of %llu bytes is too small, %llu wanted",
             static_cast<unsigned long long>(limit), static_cast<unsigned long long>(wanted));
}

void* fc_rt_alloc_frame(BlockContext* block, uint64_t bytes) {
  return Block::From(block)->AllocateFrame(bytes);
}

uint64_t fc_rt_globaltimer() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

uint32_t fc_rt_vprintf(const char* format, const uint8_t* arguments) {
  return static_cast<uint32_t>(WriteDeviceFormat(format, arguments));
}
void fc_rt_set_conditional(uint64_t handle, uint32_t value) {
  if (Options().set_conditional != nullptr) Options().set_conditional(handle, value);
}
uint64_t fc_rt_malloc(uint64_t bytes) {
  return DeviceHeapAllocate(bytes);
}
void fc_rt_free(uint64_t address) {
  DeviceHeapFree(address);
}

void fc_rt_assert(BlockContext* block, ThreadContext* thread, const char* message, const char* file,
                  uint32_t line, const char* function) {
  char text[900];
  snprintf(text, sizeof(text),
           "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.", file, line,
           function, block->ctaid[0], block->ctaid[1], block->ctaid[2], thread->tid[0],
           thread->tid[1], thread->tid[2], message);
  WriteAssertion(std::string(text) + "\n");
  RaiseFault(ExecStatus::kAssert, "%s", text);
}

uint32_t fc_rt_fns(uint32_t mask, uint32_t base, int32_t offset) {
  base &= 31;
  if (offset == 0) return (mask >> base & 1) ? base : ~0u;
  int32_t step = offset > 0 ? 1 : -1;
  int32_t left = offset > 0 ? offset : -offset;
  for (int32_t i = static_cast<int32_t>(base); i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) && --left == 0) return static_cast<uint32_t>(i);
  return ~0u;
}

}  // extern "C"

template <typename F>
RuntimeSymbol Symbol(std::string_view name, F* function) {
  return {name, reinterpret_cast<void*>(function)};
}

const RuntimeSymbol kSymbols[] = {
    Symbol("fc_rt_check", CheckAccess),
    Symbol("fc_rt_reaches", ReachesAll),
    Symbol("fc_rt_window_fault", fc_rt_window_fault),
    Symbol("fc_rt_trap", fc_rt_trap),
    Symbol("fc_rt_bad_call", fc_rt_bad_call),
    Symbol("fc_rt_cancelled", fc_rt_cancelled),
    Symbol("fc_rt_stack_overflow", fc_rt_stack_overflow),
    Symbol("fc_rt_alloc_frame", fc_rt_alloc_frame),
    Symbol("fc_rt_warp_operation", RunBlockWarpOperation),
    Symbol("fc_rt_matrix_steps", RunMatrixSteps),
    Symbol("fc_rt_reduce_predicates", ReducePredicates),
    Symbol("fc_rt_staying_threads", StayingThreads),
    Symbol("fc_rt_globaltimer", fc_rt_globaltimer),
    Symbol("fc_rt_vprintf", fc_rt_vprintf),
    Symbol("fc_rt_set_conditional", fc_rt_set_conditional),
    Symbol("fc_rt_malloc", fc_rt_malloc),
    Symbol("fc_rt_free", fc_rt_free),
    Symbol("fc_rt_assert", fc_rt_assert),
    Symbol("fc_rt_fns", fc_rt_fns),
    // What LLVM itself calls.
    Symbol("memcpy", static_cast<void* (*)(void*, const void*, size_t)>(memcpy)),
    Symbol("memmove", static_cast<void* (*)(void*, const void*, size_t)>(memmove)),
    Symbol("memset", static_cast<void* (*)(void*, int, size_t)>(memset)),
    Symbol("sinf", static_cast<float (*)(float)>(sinf)),
    Symbol("cosf", static_cast<float (*)(float)>(cosf)),
    Symbol("exp2f", static_cast<float (*)(float)>(exp2f)),
    Symbol("log2f", static_cast<float (*)(float)>(log2f)),
    Symbol("tanhf", static_cast<float (*)(float)>(tanhf)),
    Symbol("fmaf", static_cast<float (*)(float, float, float)>(fmaf)),
    // What LLVM makes of some selects of min and max.
    Symbol("fmaxf", static_cast<float (*)(float, float)>(fmaxf)),
    Symbol("fminf", static_cast<float (*)(float, float)>(fminf)),
    Symbol("fmax", static_cast<double (*)(double, double)>(fmax)),
    Symbol("fmin", static_cast<double (*)(double, double)>(fmin)),
    Symbol("fma", static_cast<double (*)(double, double, double)>(fma)),
    Symbol("floorf", static_cast<float (*)(float)>(floorf)),
    Symbol("floor", static_cast<double (*)(double)>(floor)),
    Symbol("ceilf", static_cast<float (*)(float)>(ceilf)),
    Symbol("ceil", static_cast<double (*)(double)>(ceil)),
    Symbol("truncf", static_cast<float (*)(float)>(truncf)),
    Symbol("trunc", static_cast<double (*)(double)>(trunc)),
    Symbol("roundevenf", static_cast<float (*)(float)>(rintf)),
    Symbol("roundeven", static_cast<double (*)(double)>(rint)),
};

}  // namespace

void* FindRuntimeSymbol(std::string_view name) {
  for (const RuntimeSymbol& symbol : kSymbols)
    if (symbol.name == name) return symbol.address;
  for (auto symbols :
       {FloatSymbols, TextureSymbols, AsyncSymbols, TensorSymbols, ChildGridSymbols}) {
    unsigned count = 0;
    const RuntimeSymbol* more = symbols(&count);
    for (unsigned i = 0; i < count; ++i)
      if (more[i].name == name) return more[i].address;
  }
  return nullptr;
}

}  // namespace farcall::cpu_device
