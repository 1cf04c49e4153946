// SPDX-License-Identifier: Apache-2.0
// Dynamic parallelism: what the threads of one grid launch. Child grids run when their parent's
// blocks are done, one after the other in the order of their launches, each with its own children
// before the next begins: an order that every stream and event of the device runtime allows, since
// nothing in a grid may wait for a child. The parent ends with the last of them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "cpu-device/exec/program.h"
#include "cpu-device/exec/runtime.h"

namespace farcall::cpu_device {

// A program's kernels by what their address is in it.
class KernelsByAddress {
 public:
  virtual ~KernelsByAddress() = default;
  virtual Kernel* KernelAt(uint64_t address) = 0;  // nullptr: no kernel
};

// Error codes of the device runtime's own calls; libcudadevrt makes cudaError_t of them.
enum class DeviceError : uint32_t {
  kNone = 0,
  kInvalidValue = 1,
  kInvalidDevice = 3,
  kOutOfMemory = 4,
  kTooDeep = 5,
  kOutOfResources = 6,
  kInvalidConfiguration = 7,
  kPendingCount = 12,
};

//   Thread  all methods from any thread of the grid; RunAll when they have ended
class ChildGrids {
 public:
  explicit ChildGrids(KernelsByAddress& kernels);
  ~ChildGrids();
  ChildGrids(const ChildGrids&) = delete;

  // Device memory for the parameters of a launch; 0: not to be launched, or no memory.
  uint64_t ParameterBuffer(uint64_t kernel, Dim3 grid, Dim3 block, uint32_t shared_bytes,
                           DeviceError* error);
  DeviceError Launch(uint64_t buffer, uint64_t stream);
  uint64_t CreateHandle();      // of a stream or an event
  bool Knows(uint64_t handle);  // or it is one that needs no creating
  bool Destroy(uint64_t handle);
  Kernel* KernelAt(uint64_t address) { return kernels_.KernelAt(address); }

  void SetError(uint64_t thread, uint32_t error);
  uint32_t ErrorOf(uint64_t thread);

  // The first that fails ends it.
  ExecResult RunAll();

 private:
  struct Child {
    Kernel* kernel = nullptr;
    LaunchConfig config;
    std::vector<uint8_t> params;
  };
  ExecResult Run(const std::vector<Child>& children);
  bool KnowsLocked(uint64_t handle) const;

  KernelsByAddress& kernels_;
  const uint32_t depth_;  // how many grids this one is nested in
  std::mutex mutex_;
  std::map<uint64_t, Child> prepared_;  // by their parameters' address
  std::vector<Child> children_, last_;  // last_: cudaStreamTailLaunch, after all others
  std::set<uint64_t> handles_;
  uint64_t next_handle_ = 0;
  std::map<uint64_t, uint32_t> errors_;  // by thread of the grid
};

const RuntimeSymbol* ChildGridSymbols(unsigned* count);

}  // namespace farcall::cpu_device
