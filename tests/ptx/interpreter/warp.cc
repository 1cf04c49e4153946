// SPDX-License-Identifier: Apache-2.0
// Barriers and warp collectives. A lane parks; when its group is complete the scheduler calls
// Collective once.
#include <bit>
#include <cmath>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

using ptx::AtomicOp;

// Source lane of a shuffle; *in_range is its predicate result.
unsigned ShuffleSource(ptx::ShuffleMode mode, unsigned lane, uint32_t b, uint32_t c,
                       bool* in_range) {
  const unsigned bval = b & 31, cval = c & 31, segment = c >> 8 & 31;
  const unsigned max_lane = (lane & segment) | (cval & ~segment & 31);
  const unsigned min_lane = lane & segment;
  int j = 0;
  switch (mode) {
    case ptx::ShuffleMode::kUp:
      j = static_cast<int>(lane) - static_cast<int>(bval);
      break;
    case ptx::ShuffleMode::kDown:
      j = static_cast<int>(lane + bval);
      break;
    case ptx::ShuffleMode::kBfly:
      j = static_cast<int>(lane ^ bval);
      break;
    default:
      j = static_cast<int>(min_lane | (bval & ~segment & 31));
      break;
  }
  const int limit = static_cast<int>(max_lane);
  *in_range = mode == ptx::ShuffleMode::kUp ? j >= limit : j <= limit;
  return *in_range ? static_cast<unsigned>(j) : lane;
}

template <typename T>
T ReduceInteger(AtomicOp op, T a, T b) {
  switch (op) {
    case AtomicOp::kAdd:
      return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
    case AtomicOp::kMin:
      return a < b ? a : b;
    case AtomicOp::kMax:
      return a < b ? b : a;
    case AtomicOp::kAnd:
      return a & b;
    case AtomicOp::kOr:
      return a | b;
    default:
      return a ^ b;
  }
}

uint32_t ReduceFloat(AtomicOp op, uint32_t x, uint32_t y, bool abs, bool propagate) {
  float a = AsFloat(x), b = AsFloat(y);
  if (abs) {
    a = std::fabs(a);
    b = std::fabs(b);
  }
  if (std::isnan(a) || std::isnan(b)) {
    if (propagate || (std::isnan(a) && std::isnan(b))) return 0x7fffffff;
    return static_cast<uint32_t>(Bits(std::isnan(a) ? b : a));
  }
  bool first = (a < b || (a == b && std::signbit(a))) == (op == AtomicOp::kMin);
  return static_cast<uint32_t>(Bits(first ? a : b));
}

}  // namespace

bool Core::Warp() {
  auto park = [this](uint64_t mask) {
    if (!(mask >> thread_.lane() & 1)) Invalid("the lane is not in its own member mask");
    thread_.state = ThreadState::kCollective;
    thread_.mask = static_cast<uint32_t>(mask);
    return true;
  };
  switch (in_.opcode) {
    case Opcode::kActivemask:
      thread_.state = ThreadState::kActivemask;
      return true;
    case Opcode::kShfl:
      if (!mods_.sync) Unsupported("no member mask");
      return park(Read(Op(4), Type::kB32));
    case Opcode::kVote:
      if (!mods_.sync) Unsupported("no member mask");
      return park(Read(Op(2), Type::kB32));
    case Opcode::kMatch:
    case Opcode::kRedux:
      return park(Read(Op(2), Type::kB32));
    case Opcode::kElect:
      return park(Read(Op(1), Type::kB32));
    case Opcode::kMma:
    case Opcode::kWmma:
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
    case Opcode::kMovmatrix:
      return park(~0u);
    case Opcode::kBar:
    case Opcode::kBarrier:
      break;
    default:
      return false;
  }
  if (mods_.barrier == ptx::BarrierOp::kWarpSync) return park(Read(Op(0), Type::kB32));
  const bool reduces = mods_.barrier == ptx::BarrierOp::kRed;
  const size_t first = reduces ? 1 : 0;
  const uint64_t id = Read(Op(first), Type::kU32);
  if (id > 15) Invalid("barrier " + std::to_string(id) + ", at most 15");
  const bool counted = OperandCount() > (reduces ? 3u : 1u);
  const uint64_t count = counted ? Read(Op(first + 1), Type::kU32) : 0;
  if (mods_.barrier == ptx::BarrierOp::kArrive) {
    block_.ArriveAtBarrier(static_cast<uint32_t>(id));
    return true;
  }
  thread_.state = ThreadState::kBarrier;
  thread_.barrier = static_cast<uint32_t>(id);
  thread_.barrier_threads = static_cast<uint32_t>(count);
  return true;
}

void Core::BarrierReduction(Block& block, const std::vector<Thread*>& waiting) {
  uint32_t population = 0;
  bool all = true, any = false;
  for (Thread* thread : waiting) {
    Core core(block, *thread);
    if (core.mods_.barrier != ptx::BarrierOp::kRed) return;
    bool value = core.ReadPredicate(core.in_.operands.back());
    population += value;
    all &= value;
    any |= value;
  }
  for (Thread* thread : waiting) {
    Core core(block, *thread);
    switch (core.mods_.atomic) {
      case AtomicOp::kPopc:
        core.Write(core.Op(0), Type::kU32, population);
        break;
      case AtomicOp::kAnd:
        core.WritePredicate(core.Op(0), all);
        break;
      case AtomicOp::kOr:
        core.WritePredicate(core.Op(0), any);
        break;
      default:
        core.Unsupported();
    }
  }
}

namespace {

struct LaneValue {
  Core core;
  unsigned lane;
};

// redux.sync of what the lanes have, from the lowest.
uint64_t Reduce(const ptx::Modifiers& mods, Type type, const std::vector<uint64_t>& values) {
  uint64_t reduced = values.front();
  if (type == Type::kF32 && values.size() == 1) {
    reduced = ReduceFloat(mods.atomic, static_cast<uint32_t>(reduced),
                          static_cast<uint32_t>(reduced), mods.abs, mods.nan);
  }
  for (size_t i = 1; i < values.size(); ++i) {
    uint32_t a = static_cast<uint32_t>(reduced), b = static_cast<uint32_t>(values[i]);
    if (type == Type::kF32) {
      reduced = ReduceFloat(mods.atomic, a, b, mods.abs, mods.nan);
    } else if (ptx::IsSigned(type)) {
      reduced = static_cast<uint32_t>(
          ReduceInteger(mods.atomic, static_cast<int32_t>(a), static_cast<int32_t>(b)));
    } else {
      reduced = ReduceInteger(mods.atomic, a, b);
    }
  }
  return reduced;
}

uint64_t Vote(ptx::VoteMode mode, uint32_t ballot, uint32_t present) {
  switch (mode) {
    case ptx::VoteMode::kAll:
      return ballot == present;
    case ptx::VoteMode::kAny:
      return ballot != 0;
    case ptx::VoteMode::kUni:
      return ballot == 0 || ballot == present;
    default:
      return ballot;
  }
}

}  // namespace

// Long: all lanes are read, then all results made, then all written.
void Core::Collective(Block& block, const std::vector<Thread*>& threads) {
  std::vector<LaneValue> lanes;
  for (Thread* thread : threads) lanes.push_back({Core(block, *thread), thread->lane()});
  const Core& first = lanes.front().core;
  const Type type = first.in_.type();
  const Opcode opcode = first.in_.opcode;
  switch (opcode) {
    case Opcode::kBar:
      return;
    case Opcode::kMma:
    case Opcode::kWmma:
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
    case Opcode::kMovmatrix: {
      std::vector<Core> cores;
      for (Thread* thread : threads) cores.emplace_back(block, *thread);
      if (opcode == Opcode::kMma) return MatrixMultiply(cores);
      return opcode == Opcode::kWmma ? WarpMatrix(cores) : MoveMatrices(cores);
    }
    default:
      break;
  }
  // All sources are read before any destination is written: they may be the same register.
  uint64_t value[kWarpSize] = {};
  uint32_t present = 0;
  for (const LaneValue& l : lanes) {
    present |= 1u << l.lane;
    if (opcode != Opcode::kElect) {
      value[l.lane] = opcode == Opcode::kVote ? l.core.ReadPredicate(l.core.Op(1))
                                              : l.core.Read(l.core.Op(1), type);
    }
  }
  uint32_t ballot = 0;
  bool same = true;
  const unsigned leader = lanes.front().lane;
  for (const LaneValue& l : lanes) {
    ballot |= static_cast<uint32_t>(value[l.lane] != 0) << l.lane;
    same &= value[l.lane] == value[leader];
  }
  uint64_t reduced = value[leader];
  if (opcode == Opcode::kRedux) {
    std::vector<uint64_t> values;
    for (const LaneValue& l : lanes) values.push_back(value[l.lane]);
    reduced = Reduce(first.mods_, type, values);
  }
  struct Result {
    uint64_t value;
    bool predicate;
  };
  std::vector<Result> results;
  for (LaneValue& l : lanes) {
    Core& core = l.core;
    Result r{0, false};
    switch (opcode) {
      case Opcode::kShfl: {
        unsigned source = ShuffleSource(
            core.mods_.shuffle, l.lane, static_cast<uint32_t>(core.Read(core.Op(2), Type::kB32)),
            static_cast<uint32_t>(core.Read(core.Op(3), Type::kB32)), &r.predicate);
        r.value = value[source];
        break;
      }
      case Opcode::kVote:
        r.value = Vote(core.mods_.vote, ballot, present);
        break;
      case Opcode::kMatch: {
        uint32_t equal = 0;
        for (const LaneValue& other : lanes)
          equal |= static_cast<uint32_t>(value[other.lane] == value[l.lane]) << other.lane;
        bool all = core.mods_.vote == ptx::VoteMode::kAll;
        r.value = all ? (same ? present : 0) : equal;
        r.predicate = same;
        break;
      }
      case Opcode::kElect:
        r.value = leader;
        r.predicate = l.lane == leader;
        break;
      default:
        r.value = reduced;
        break;
    }
    results.push_back(r);
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    Core& core = lanes[i].core;
    bool as_predicate = opcode == Opcode::kVote && type == Type::kPred;
    bool own_type = opcode == Opcode::kRedux;
    core.Write(core.Op(0),
               as_predicate ? Type::kPred
               : own_type   ? type
                            : Type::kB32,
               results[i].value);
    if (!core.in_.second_dst.Is(Kind::kNone))
      core.WritePredicate(core.in_.second_dst, results[i].predicate);
  }
}

}  // namespace farcall::cpu_device::ptx_interpreter
