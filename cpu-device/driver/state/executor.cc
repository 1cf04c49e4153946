// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/executor.h"

#include <cstdlib>
#include <mutex>
#include <string>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/memory.h"

namespace farcall::cpu_device {
namespace {

bool IsDeviceAddress(uint64_t address) {
  Driver& driver = TheDriver();
  return driver.arena->Contains(address) || driver.ranges.MaybeMapped(address);
}

bool FindRange(uint64_t address, uint64_t bytes, KnownRange* found) {
  return TheDriver().ranges.Mapped(address, bytes, found);
}

std::string CacheDirectory() {
  if (const char* chosen = getenv("FARCALL_CPU_CACHE")) return chosen;
  if (const char* cache = getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/farcall/cpu-device";
  const char* home = getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/farcall/cpu-device" : "";
}

uint64_t NumberFromEnvironment(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : strtoull(text, nullptr, 10);
}

ExecutorOptions& Options() {
  static auto* options = new ExecutorOptions;
  return *options;
}

std::once_flag g_started;

}  // namespace

void StartExecutor() {
  std::call_once(g_started, [] {
    ExecutorOptions& options = Options();
    options.pool_threads = static_cast<unsigned>(NumberFromEnvironment("FARCALL_CPU_THREADS"));
    if (options.pool_threads == 0)
      options.pool_threads = static_cast<unsigned>(TheDriver().profile.processors.size());
    options.watchdog_ns = NumberFromEnvironment("FARCALL_CPU_TIMEOUT_MS") * 1'000'000;
    options.cache_dir = CacheDirectory();
    options.cache_shared = NumberFromEnvironment("FARCALL_CPU_CACHE_SHARED") != 0;
    options.warn = [](const std::string& text) { Log(LogLevel::kWarn, "%s", text.c_str()); };
    options.lockstep = TheDriver().profile.lockstep;
    options.is_device_address = &IsDeviceAddress;
    options.find_range = &FindRange;
    options.range_version = &TheDriver().ranges.version();
    options.set_conditional = &SetConditional;
    options.device_window_begin = TheDriver().arena->begin();
    options.device_window_end = TheDriver().arena->end();
    ConfigureExecutor(options);
  });
}

void SetStackLimit(size_t bytes) {
  StartExecutor();
  Options().stack_bytes = bytes;
  ConfigureExecutor(Options());
}

void PrepareDeviceHeap(Context& context) {
  static std::once_flag once;
  std::call_once(once, [&] {
    size_t bytes = 0;
    context.GetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, &bytes);
    const uint64_t address = TheDriver().arena->Allocate(bytes);
    if (address != 0) SetDeviceHeap(address, bytes);
  });
}

void FlushOutput() {
  FlushDeviceOutput();
}

CUresult ResultOf(const ExecResult& result) {
  if (result.ok()) return CUDA_SUCCESS;
  // A failed assertion is the program's own message, printed already.
  const LogLevel level = result.status == ExecStatus::kAssert ? LogLevel::kInfo : LogLevel::kError;
  Log(level, "%s", result.message.c_str());
  switch (result.status) {
    case ExecStatus::kOk:
      return CUDA_SUCCESS;
    case ExecStatus::kInvalidPtx:
      return CUDA_ERROR_INVALID_PTX;
    case ExecStatus::kUnsupported:
      return CUDA_ERROR_NOT_SUPPORTED;
    case ExecStatus::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ExecStatus::kMisaligned:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ExecStatus::kAssert:
      return CUDA_ERROR_ASSERT;
    case ExecStatus::kTrap:
      return CUDA_ERROR_LAUNCH_FAILED;
    case ExecStatus::kTimeout:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    case ExecStatus::kStackOverflow:
      return CUDA_ERROR_LAUNCH_FAILED;
    case ExecStatus::kOutOfMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case ExecStatus::kInvalidImage:
      return CUDA_ERROR_INVALID_IMAGE;
    case ExecStatus::kNoBinary:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  return CUDA_ERROR_UNKNOWN;
}

uint64_t ContextGlobals::Allocate(uint64_t size_bytes, uint64_t align_bytes) {
  uint64_t address = 0;
  const CUresult result =
      AllocateDevice(context_, size_bytes, RangeKind::kGlobal, 0, nullptr, &address, align_bytes);
  return result == CUDA_SUCCESS ? address : 0;
}

void ContextGlobals::Free(uint64_t address) {
  FreeDevice(address, {RangeKind::kGlobal});
}

}  // namespace farcall::cpu_device
