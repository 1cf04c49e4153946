// SPDX-License-Identifier: Apache-2.0
// A slow, plain PTX interpreter: a second reading of the ISA that the CPU device's JIT is compared
// with. Test only. It shares nothing with the JIT but the parser. Addresses are host pointers;
// shared memory is addressed from 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::ptx_interpreter {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct LaunchConfig {
  Dim3 grid, block, cluster;  // a cluster divides the grid
  uint32_t dynamic_shared_bytes = 0;
  uint64_t max_steps = 1ull << 32;  // instructions of the whole grid, then kTimeout
};

enum class RunStatus {
  kOk,
  kInvalid,
  kUnsupported,
  kTrap,
  kAssert,
  kBadAddress,
  kDeadlock,
  kTimeout
};

struct RunResult {
  RunStatus status = RunStatus::kOk;
  std::string message;  // "line 12: ..." of the PTX
  std::string output;   // what vprintf wrote
  bool ok() const { return status == RunStatus::kOk; }
};

class Interpreter {
 public:
  // Parses `ptx`, places and initialises its module-scope variables.
  static RunResult Load(std::string_view ptx, std::unique_ptr<Interpreter>* out);
  ~Interpreter();

  // Storage of a .global or .const variable; nullptr if there is none of that name.
  void* GlobalAddress(std::string_view name) const;

  // Runs the grid, block after block, the threads of a block in turns.
  //   params  the entry's argument block: param_bytes bytes
  //   Errors  kInvalid (no such kernel, wrong sizes), kUnsupported (names the instruction), ...
  //   Thread  one at a time
  RunResult Run(std::string_view kernel, const LaunchConfig& config,
                const std::vector<uint8_t>& params);

  const ptx::Module& module() const { return module_; }

 private:
  Interpreter() = default;
  RunResult PlaceGlobals();
  RunResult PlaceShared();
  void RunCluster(const ptx::Function& entry, const LaunchConfig& config, Dim3 first,
                  const std::vector<uint8_t>& params, std::string* output, uint64_t* steps_left);
  bool Relocate(const ptx::Variable& variable);
  uint64_t AddressOf(const ptx::Variable& variable) const;
  friend class Block;

  ptx::Module module_;
  std::unordered_map<const ptx::Variable*, uint8_t*> globals_;
  std::unordered_map<const ptx::Variable*, uint64_t> shared_;  // offsets, whole module
  uint64_t static_shared_bytes_ = 0;
  std::vector<std::unique_ptr<uint8_t[]>> storage_;
  std::vector<void*> device_heap_;  // of device malloc, freed with us
};

}  // namespace farcall::cpu_device::ptx_interpreter
