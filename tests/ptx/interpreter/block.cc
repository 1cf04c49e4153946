// SPDX-License-Identifier: Apache-2.0
// Turn-taking execution of one thread block.
#include <algorithm>
#include <cstring>

#include "tests/ptx/interpreter/core.h"
#include "tests/ptx/interpreter/machine.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

constexpr unsigned kTurnSteps = 512;  // a spinning thread must not starve the one it waits for
constexpr uint64_t kActivemaskRounds = 64;  // turns an activemask waits for stragglers that spin
constexpr uint64_t kGuardBytes = 64;
constexpr uint64_t kAlign = 256;  // of every allocation

uint64_t AlignUp(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

std::unique_ptr<uint8_t[]> Aligned(uint64_t bytes, uint8_t** start) {
  auto storage = std::make_unique<uint8_t[]>(bytes + kAlign + kGuardBytes);
  *start = reinterpret_cast<uint8_t*>(AlignUp(reinterpret_cast<uint64_t>(storage.get()), kAlign));
  return storage;
}

}  // namespace

Block::Block(Interpreter& program, const ptx::Function& entry, const LaunchConfig& config,
             Dim3 index, const std::vector<uint8_t>& params, std::string* output,
             uint64_t* steps_left)
    : program_(program),
      config_(config),
      index_(index),
      output_(output),
      steps_left_(steps_left),
      params_(params) {
  dynamic_offset_ = AlignUp(program.static_shared_bytes_, 128);
  shared_bytes_ = dynamic_offset_ + config.dynamic_shared_bytes;
  shared_ = std::make_unique<uint8_t[]>(shared_bytes_ + kGuardBytes);
  const Dim3 size = config.block;
  threads_.resize(uint64_t{size.x} * size.y * size.z);
  for (uint32_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    thread.linear = i;
    thread.tid = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    thread.frames.push_back(MakeFrame(entry));
    for (const auto& param : entry.params) {
      std::memcpy(thread.frame().slots[param.get()], params_.data() + param->param_offset,
                  param->size_bytes);
    }
  }
}

// Storage for every variable the function owns, in one zeroed allocation.
Frame Block::MakeFrame(const ptx::Function& function) const {
  Frame frame;
  frame.function = &function;
  frame.regs.resize(function.registers.size());
  std::vector<std::pair<const ptx::Variable*, uint64_t>> places;
  uint64_t end = 0;
  auto place = [&](const ptx::Variable& variable) {
    end = AlignUp(end, std::max<uint64_t>(variable.align, 16));
    places.emplace_back(&variable, end);
    end += variable.size_bytes;
  };
  for (const auto& param : function.params) place(*param);
  for (const auto& result : function.returns) place(*result);
  for (const auto& local : function.locals)
    if (local->space == ptx::Space::kLocal || local->space == ptx::Space::kParam) place(*local);
  uint8_t* start = nullptr;
  frame.storage = Aligned(end, &start);
  frame.storage_bytes = end + kAlign + kGuardBytes;
  for (auto& [variable, offset] : places) frame.slots[variable] = start + offset;
  return frame;
}

uint64_t Block::AddressOf(Thread& thread, const ptx::Variable& variable) const {
  auto slot = thread.frame().slots.find(&variable);
  if (slot != thread.frame().slots.end()) return reinterpret_cast<uint64_t>(slot->second);
  if (variable.space == ptx::Space::kShared && variable.linkage == ptx::Linkage::kExtern)
    return AlignUp(dynamic_offset_, variable.align);
  return program_.AddressOf(variable);
}

const ptx::Function* Block::FunctionAt(uint64_t address) const {
  for (const auto& function : program_.module_.functions)
    if (reinterpret_cast<uint64_t>(function.get()) == address) return function.get();
  return nullptr;
}

Stop Block::Located(const Thread& thread, Stop stop) const {
  const Frame& frame = thread.frames.back();
  if (frame.pc < frame.function->body.size()) {
    stop.message =
        "line " + std::to_string(frame.function->body[frame.pc].line) + ": " + stop.message;
  }
  stop.message += " (thread " + std::to_string(thread.linear) + ")";
  return stop;
}

void Block::RunTurn(Thread& thread) {
  for (unsigned i = 0; i < kTurnSteps && thread.state == ThreadState::kRunning; ++i) {
    Frame& frame = thread.frame();
    if (frame.pc >= frame.function->body.size()) {
      throw Stop{RunStatus::kInvalid,
                 "execution runs past the end of '" + std::string(frame.function->name) + "'"};
    }
    if ((*steps_left_)-- == 0) throw Stop{RunStatus::kTimeout, "step limit reached"};
    ++clock_;
    ++thread.steps;
    Core(*this, thread).Step();
  }
}

bool Block::Turn(bool* progress) {
  bool live = false;
  for (Thread& thread : threads_) {
    if (thread.state == ThreadState::kRunning) {
      *progress = true;
      try {
        RunTurn(thread);
      } catch (Stop& stop) {
        throw Located(thread, stop);
      }
    }
    live |= thread.state != ThreadState::kExited;
  }
  for (unsigned warp = 0; warp < WarpCount(); ++warp) {
    *progress |= ResolveCollectives(warp);
    *progress |= ResolveActivemasks(warp);
  }
  *progress |= ResolveBarriers();
  return live;
}

void Block::Deadlock() {
  for (Thread& thread : threads_) {
    if (thread.state == ThreadState::kExited) continue;
    throw Located(thread, {RunStatus::kDeadlock, "deadlock: waits forever"});
  }
  throw Stop{RunStatus::kDeadlock, "deadlock"};
}

Thread* Block::Lane(unsigned warp, unsigned lane) {
  size_t i = size_t{warp} * kWarpSize + lane;
  return i < threads_.size() ? &threads_[i] : nullptr;
}

// A group is complete when every lane of the mask has come to the same kind of instruction with the
// same mask, or has exited.
bool Block::ResolveCollectives(unsigned warp) {
  bool any = false;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    Thread* first = Lane(warp, lane);
    if (!first || first->state != ThreadState::kCollective) continue;
    const uint32_t mask = first->mask;
    std::vector<Thread*> group;
    bool complete = true;
    for (unsigned other = 0; other < kWarpSize && complete; ++other) {
      Thread* thread = Lane(warp, other);
      if (!(mask >> other & 1) || !thread || thread->state == ThreadState::kExited) continue;
      complete = thread->state == ThreadState::kCollective && thread->mask == mask &&
                 thread->instruction().mnemonic == first->instruction().mnemonic;
      group.push_back(thread);
    }
    if (!complete) continue;
    try {
      Core::Collective(*this, group);
    } catch (Stop& stop) {
      throw Located(*first, stop);
    }
    for (Thread* thread : group) {
      thread->state = ThreadState::kRunning;
      ++thread->frame().pc;
    }
    any = true;
  }
  return any;
}

// activemask answers with the lanes that wait at the same place once no other lane of the warp can
// move, which is what a warp that reconverges as early as it can would answer.
bool Block::ResolveActivemasks(unsigned warp) {
  Thread* lowest = nullptr;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    Thread* thread = Lane(warp, lane);
    if (!thread || thread->state != ThreadState::kActivemask) continue;
    ++thread->rounds_waited;
    if (!lowest || thread->frame().pc < lowest->frame().pc) lowest = thread;
  }
  if (!lowest) return false;
  std::vector<Thread*> group;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    Thread* thread = Lane(warp, lane);
    if (!thread) continue;
    bool spins = lowest->rounds_waited > kActivemaskRounds;
    if (thread->state == ThreadState::kRunning && !spins) return false;
    if (thread->state == ThreadState::kActivemask &&
        thread->frames.size() == lowest->frames.size() &&
        &thread->instruction() == &lowest->instruction())
      group.push_back(thread);
  }
  uint32_t mask = 0;
  for (Thread* thread : group) mask |= 1u << thread->lane();
  for (Thread* thread : group) {
    Core core(*this, *thread);
    core.Write(core.Op(0), Type::kB32, mask);
    thread->state = ThreadState::kRunning;
    thread->rounds_waited = 0;
    ++thread->frame().pc;
  }
  return true;
}

bool Block::ResolveBarriers() {
  bool any = false;
  uint32_t live = 0;
  for (Thread& thread : threads_) live += thread.state != ThreadState::kExited;
  for (uint32_t id = 0; id < arrived_.size(); ++id) {
    uint32_t waiting = 0, expected = 0;
    for (Thread& thread : threads_) {
      if (thread.state != ThreadState::kBarrier || thread.barrier != id) continue;
      ++waiting;
      expected = thread.barrier_threads ? thread.barrier_threads : live;
    }
    if (waiting == 0 || waiting + arrived_[id] < expected) continue;
    FinishBarrier(id);
    any = true;
  }
  return any;
}

void Block::FinishBarrier(uint32_t id) {
  std::vector<Thread*> waiting;
  for (Thread& thread : threads_)
    if (thread.state == ThreadState::kBarrier && thread.barrier == id) waiting.push_back(&thread);
  arrived_[id] = 0;
  Core::BarrierReduction(*this, waiting);
  for (Thread* thread : waiting) {
    thread->state = ThreadState::kRunning;
    ++thread->frame().pc;
  }
}

}  // namespace farcall::cpu_device::ptx_interpreter
