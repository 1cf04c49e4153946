// SPDX-License-Identifier: Apache-2.0
// The contract between the CPU device's driver half and its execution half: a loaded PTX program,
// its kernels and globals.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cpu-device/exec/known_range.h"

namespace farcall::cpu_device {

// One kernel parameter, as cuFuncGetParamInfo reports it.
struct KernelParam {
  uint32_t offset_bytes = 0;
  uint32_t size_bytes = 0;
};

// What the driver reports of a kernel and checks a launch against. True values, not guesses:
// libraries choose block sizes by them.
struct KernelInfo {
  std::string name;
  std::vector<KernelParam> params;
  uint32_t param_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;                // per thread
  uint32_t const_bytes = 0;                // user constant memory of the module
  uint32_t max_threads_per_block = 1024;   // from .maxntid / .reqntid
  uint32_t required_block[3] = {0, 0, 0};  // .reqntid, zeros if absent
  uint32_t registers = 0;
  uint32_t ptx_version = 0;                  // .target: 75 for sm_75
  uint32_t binary_version = 0;               // of machine code: 90 for sm_90; 0 = the device's own
  uint32_t required_cluster[3] = {0, 0, 0};  // .reqnctapercluster, zeros if absent
  bool needs_cluster = false;                // .explicitcluster: a launch has to give its shape
  bool uses_grid_sync = false;
};

// A module-scope variable. `address` is a device address valid for the program's life.
struct GlobalInfo {
  std::string name;
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  bool managed = false;  // .attribute(.managed)
};

// Where a program's module-scope variables live. Given by the driver: device memory it accounts
// for.
class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;
  virtual uint64_t Allocate(uint64_t size_bytes, uint64_t align_bytes) = 0;  // 0 = out of memory
  virtual void Free(uint64_t address) = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct LaunchConfig {
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
};

// How a launch ended. Maps 1:1 to CUresult in the driver half; `message` names kernel, address,
// line.
enum class ExecStatus {
  kOk,
  kInvalidPtx,   // CUDA_ERROR_INVALID_PTX
  kUnsupported,  // an instruction outside what this device executes; message names it and its line
  kIllegalAddress,  // 700
  kMisaligned,      // 716
  kAssert,          // 710
  kTrap,  // 718-ish: illegal instruction / trap -> CUDA_ERROR_LAUNCH_FAILED 719 in the driver half
  kTimeout,        // 702
  kStackOverflow,  // 719
  kOutOfMemory,
  kInvalidImage,  // CUDA_ERROR_INVALID_IMAGE
  kNoBinary,      // machine code for another device: CUDA_ERROR_NO_BINARY_FOR_GPU
};

struct ExecResult {
  ExecStatus status = ExecStatus::kOk;
  std::string message;
  bool ok() const { return status == ExecStatus::kOk; }
};

class Kernel;

// A PTX module, parsed, its globals placed. Kernels compile at first need (or from the disk cache).
//   Thread  all methods from any thread
class Program {
 public:
  // Parses `ptx` (NUL-terminated text need not be), allocates and initialises globals.
  //   Errors  kInvalidPtx with "line N: ..."; kOutOfMemory
  static ExecResult Load(std::string_view ptx, GlobalMemory& memory, std::unique_ptr<Program>* out);
  virtual ~Program() = default;

  virtual const std::vector<std::string>& KernelNames() const = 0;
  virtual const std::vector<GlobalInfo>& Globals() const = 0;
  // nullptr if there is no such entry. Owned by the program. Cheap: does not compile.
  virtual Kernel* FindKernel(std::string_view name) = 0;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual const KernelInfo& info() const = 0;
  // Compiles if need be (disk cache first). Called from module load in EAGER mode, else by Run.
  virtual ExecResult Prepare() = 0;
  // Runs the whole grid on the calling thread plus the block pool; returns when every block is
  // done.
  //   params   info().param_bytes bytes, laid out by info().params
  //   on_wait  called at most once, on any thread: its blocks seem to wait for another grid's
  //   Thread  any, several grids at once
  virtual ExecResult Run(const LaunchConfig& config, const void* params,
                         const std::function<void()>& on_wait) = 0;
  ExecResult Run(const LaunchConfig& config, const void* params) { return Run(config, params, {}); }
};

// Process-wide settings of the executor, set once by the driver half before the first Load.
struct ExecutorOptions {
  unsigned pool_threads = 0;  // 0 = one per CPU
  uint64_t watchdog_ns = 0;   // a grid that runs longer is cut with kTimeout; 0 = never
  std::string cache_dir;      // "" = no disk cache
  bool cache_shared = false;  // whoever may write there is trusted (CacheFolder)
  int output_fd = 1;          // device printf goes here
  int error_fd = 2;           // failed assertions do
  bool lockstep = false;      // each warp of each kernel, at every access to memory
  // Told once of a kernel whose results may differ from a GPU's. Any thread. Unset: nobody is told.
  void (*warn)(const std::string& text) = nullptr;
  uint64_t stack_bytes = 1024;  // cuCtxSetLimit(STACK_SIZE), a minimum
  // True if [address, address+bytes) is mapped device (or mapped host) memory: lets a fault tell
  // 700 from a crash of the process.
  bool (*is_device_address)(uint64_t address) = nullptr;
  // True if all of it lies in one range that may be touched, which holds while `*range_version` is
  // `found->version`; false too where that cannot be told at once. Kernels ask for what a loop goes
  // through, before it does. Both unset: never.
  bool (*find_range)(uint64_t address, uint64_t bytes, KnownRange* found) = nullptr;
  const std::atomic<uint64_t>* range_version = nullptr;
  // Where all device memory lies: kernel accesses inside take one compare, others ask
  // is_device_address. Both unset: no check but the page tables'.
  uint64_t device_window_begin = 0, device_window_end = 0;
  // What cudaGraphSetConditional does. Unset: nothing.
  void (*set_conditional)(uint64_t handle, uint32_t value) = nullptr;
  bool verify_ir = false;  // run LLVM's verifier on all generated code (tests)
};
void ConfigureExecutor(const ExecutorOptions& options);

// The largest live address reservation (cuMemAddressReserve), 0, 0 = none: later launches check
// their accesses against it first, against the device window second. What is not mapped inside
// faults by itself. Any thread.
void SetReservedWindow(uint64_t begin, uint64_t end);

// Device-side malloc's heap: the driver half gives memory it accounts for
// (CU_LIMIT_MALLOC_HEAP_SIZE), else device malloc returns null.
void SetDeviceHeap(uint64_t address, uint64_t bytes);

// Writes what device printf has produced so far. Called at synchronisation points.
void FlushDeviceOutput();

}  // namespace farcall::cpu_device
