// SPDX-License-Identifier: Apache-2.0
// One thread block under execution: threads, their frames, barriers, and the turn-taking scheduler.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/ptx/interpreter/interpreter.h"

namespace farcall::cpu_device::ptx_interpreter {

inline constexpr unsigned kWarpSize = 32;

struct Reg {
  uint64_t lo = 0, hi = 0;  // hi: upper half of a .b128
};

// Ends the run. Test code, so an exception is the plain way out of nested execution.
struct Stop {
  RunStatus status;
  std::string message;
};

// A call's activation.
struct Frame {
  const ptx::Function* function = nullptr;
  uint32_t pc = 0;
  std::vector<Reg> regs;
  std::unordered_map<const ptx::Variable*, uint8_t*>
      slots;  // .local and .param variables, parameters, returns
  std::unique_ptr<uint8_t[]> storage;
  uint64_t storage_bytes = 0;
};

enum class ThreadState : uint8_t { kRunning, kBarrier, kCollective, kActivemask, kExited };

struct Thread {
  Dim3 tid;
  uint32_t linear = 0;
  std::vector<Frame> frames;
  ThreadState state = ThreadState::kRunning;
  uint32_t mask = 0;             // kCollective: lanes that must come
  uint32_t barrier = 0;          // kBarrier: which, and
  uint32_t barrier_threads = 0;  // how many threads it takes (0 = all)
  bool carry = false;            // CC.CF
  uint64_t rounds_waited = 0;
  uint64_t steps = 0;
  uint32_t cluster_arrivals = 0;  // at barrier.cluster

  unsigned lane() const { return linear % kWarpSize; }
  Frame& frame() { return frames.back(); }
  const ptx::Instruction& instruction() const {
    return frames.back().function->body[frames.back().pc];
  }
};

// What an mbarrier counts.
struct Mbarrier {
  uint32_t expected = 0, pending = 0;
  int64_t bytes = 0;
  uint32_t phases = 0;  // that have ended
};

class Block;
// The blocks that run together, in order of rank.
struct Cluster {
  std::vector<Block*> blocks;
  std::unordered_map<const uint8_t*, Mbarrier> mbarriers;
};

class Block {
 public:
  Block(Interpreter& program, const ptx::Function& entry, const LaunchConfig& config, Dim3 index,
        const std::vector<uint8_t>& params, std::string* output, uint64_t* steps_left);
  // One turn of every thread; throws Stop. False when all have exited.
  bool Turn(bool* progress);
  void JoinCluster(Cluster* cluster, unsigned rank) { cluster_ = cluster, rank_ = rank; }
  Cluster& cluster() const { return *cluster_; }
  unsigned rank() const { return rank_; }
  [[noreturn]] void Deadlock();

  Frame MakeFrame(const ptx::Function& function) const;
  // Address an operand naming `variable` stands for, in the variable's own space.
  uint64_t AddressOf(Thread& thread, const ptx::Variable& variable) const;
  const ptx::Function* FunctionAt(uint64_t address) const;

  const LaunchConfig& config() const { return config_; }
  Dim3 index() const { return index_; }
  uint8_t* shared() { return shared_.get(); }
  uint64_t shared_bytes() const { return shared_bytes_; }
  uint64_t dynamic_offset() const { return dynamic_offset_; }
  std::string* output() { return output_; }
  std::vector<Thread>& threads() { return threads_; }
  std::vector<void*>& device_heap() { return program_.device_heap_; }
  uint64_t Clock() const { return clock_; }
  void ArriveAtBarrier(uint32_t id) { ++arrived_[id]; }

 private:
  void RunTurn(Thread& thread);
  bool ResolveCollectives(unsigned warp);
  bool ResolveBarriers();
  bool ResolveActivemasks(unsigned warp);
  void FinishBarrier(uint32_t id);
  unsigned WarpCount() const {
    return static_cast<unsigned>(threads_.size() + kWarpSize - 1) / kWarpSize;
  }
  Thread* Lane(unsigned warp, unsigned lane);
  Stop Located(const Thread& thread, Stop stop) const;

  Interpreter& program_;
  const LaunchConfig& config_;
  Dim3 index_;
  std::string* output_;
  uint64_t* steps_left_;
  uint64_t clock_ = 0;
  Cluster* cluster_ = nullptr;
  unsigned rank_ = 0;
  std::unique_ptr<uint8_t[]> shared_;
  uint64_t shared_bytes_ = 0, dynamic_offset_ = 0;
  std::vector<uint8_t> params_;
  std::vector<Thread> threads_;
  std::array<uint32_t, 16> arrived_{};
};

}  // namespace farcall::cpu_device::ptx_interpreter
