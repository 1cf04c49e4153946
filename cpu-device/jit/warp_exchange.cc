// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/warp_exchange.h"

#include <algorithm>
#include <cstdlib>

#include "cpu-device/jit/address_form.h"

namespace farcall::cpu_device::jit {
namespace {

using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;
using ptx::Space;

constexpr size_t kMostWalks = 256;  // through the code, for one kernel; one more counts as reached

constexpr int64_t kMostPlaces = 16;   // from a thread to the one whose value it takes
constexpr int64_t kWidest = 1 << 20;  // bytes from thread to thread

struct Access {
  uint32_t at = 0;  // instruction
  bool stores = false, by_thread = false, scaled = false, tangled = false;
  bool tile = false;              // in shared memory, by the thread in a way that is known:
  AddressForm in_tile;            // what of its address hangs on the thread
  int64_t bytes = 0, stride = 0;  // of the access; from thread to thread
  uint64_t roots = 0;
  AddressForm rest;  // of its address, without the thread
};

bool IsPlain(const Instruction& instruction) {
  if (!instruction.Is(Opcode::kLd) && !instruction.Is(Opcode::kSt)) return false;
  if (instruction.mods.nc || instruction.mods.async || instruction.Has("bulk")) return false;
  if (instruction.mods.semantics > ptx::Semantics::kWeak) return false;
  const Space space = instruction.mods.space;
  return space == Space::kNone || space == Space::kGlobal || space == Space::kShared;
}

bool IsVolatileShared(const Instruction& instruction) {
  return (instruction.Is(Opcode::kLd) || instruction.Is(Opcode::kSt)) &&
         instruction.mods.semantics == ptx::Semantics::kVolatile &&
         instruction.mods.space == Space::kShared;
}

std::vector<Access> PlainAccesses(const ptx::Function& entry, const AddressForms& forms) {
  std::vector<Access> accesses;
  for (uint32_t i = 0; i < entry.body.size(); ++i) {
    const Instruction& instruction = entry.body[i];
    const bool stores = instruction.Is(Opcode::kSt);
    if (!IsPlain(instruction) || instruction.operands.size() < 2) continue;
    const Operand& address = instruction.operands[stores ? 0 : 1];
    if (!address.Is(Operand::Kind::kAddress)) continue;
    Access access;
    access.at = i;
    access.stores = stores;
    access.bytes = ptx::BytesOf(instruction.type()) * instruction.mods.vector;
    access.by_thread = forms.ByThread(address);
    access.scaled = forms.ByScaledLoop(address);
    access.roots = forms.Roots(address);
    access.rest = forms.Of(address);
    access.tile = instruction.mods.space == Space::kShared && access.by_thread &&
                  forms.ThreadPart(access.rest, &access.in_tile);
    access.stride = access.rest.TakeThread();
    access.tangled = forms.IsTangled(access.rest);
    accesses.push_back(std::move(access));
  }
  return accesses;
}

bool Overlap(int64_t apart, const Access& first, const Access& second) {
  return -second.bytes < apart && apart < first.bytes;
}

// One thread's bytes of the one are another thread's of the other, some places on: few enough that
// both are of one warp where a row of the block is shorter than that.
bool Neighbours(const Access& a, const Access& b) {
  const int64_t stride = a.stride;
  if (stride == 0 || stride != b.stride || std::abs(stride) > kWidest) return false;
  if (a.tangled || a.rest.terms != b.rest.terms) return false;
  const int64_t apart = b.rest.constant - a.rest.constant;
  if (std::abs(apart) > kMostPlaces * kWidest) return false;
  for (int64_t places = 1; places < kMostPlaces; ++places) {
    if (Overlap(apart - places * stride, a, b) || Overlap(apart + places * stride, a, b)) {
      return true;
    }
  }
  return false;
}

// All threads load what one of them stores afterwards: x[row + column], then x[row + t]. The row
// has to be in both, or a pivot and what is divided by it would be taken for that.
bool Overwrites(const Access& store, const Access& load) {
  if (load.by_thread || store.tangled || store.stride == 0 || store.at < load.at) return false;
  size_t common = 0, columns = 0;
  for (const auto& [symbol, count] : load.rest.terms) {
    auto it = store.rest.terms.find(symbol);
    if (it != store.rest.terms.end() && it->second == count) {
      ++common;
    } else if (it == store.rest.terms.end() && count == store.stride) {
      ++columns;
    } else {
      return false;
    }
  }
  return columns == 1 && common == store.rest.terms.size() && common >= 2;
}

bool ByTree(const Access& store, const Access& load) {
  return store.by_thread && load.by_thread && (store.scaled || load.scaled) &&
         (store.roots & load.roots);
}

// A thread stores to its place of a tile and loads from places that others have: t, then t / 8.
bool ByTile(const Access& store, const Access& load) {
  return store.tile && load.tile && store.in_tile.terms != load.in_tile.terms;
}

// Instructions that a thread can come to from behind `from` before its warp gathers.
std::vector<bool> Reached(const ptx::Function& entry, uint32_t from) {
  std::vector<bool> seen(entry.body.size(), false);
  std::vector<uint32_t> open = {from + 1};
  auto go = [&](uint64_t next) {
    if (next < seen.size() && !seen[next]) open.push_back(static_cast<uint32_t>(next));
  };
  while (!open.empty()) {
    const uint32_t i = open.back();
    open.pop_back();
    if (i >= seen.size() || seen[i]) continue;
    seen[i] = true;
    const Instruction& instruction = entry.body[i];
    if (MeetsOthers(instruction)) continue;
    const bool always = instruction.guard == ptx::kNoRegister;
    if (instruction.Is(Opcode::kBra)) go(static_cast<uint64_t>(instruction.operands[0].value));
    if (instruction.Is(Opcode::kBrx) && instruction.operands.size() > 1 &&
        instruction.operands[1].Is(Operand::Kind::kTable)) {
      const auto table = static_cast<size_t>(instruction.operands[1].value);
      for (uint32_t target : entry.branch_targets[table].targets) go(target);
    }
    const bool leaves = instruction.Is(Opcode::kBra) || instruction.Is(Opcode::kBrx) ||
                        instruction.Is(Opcode::kExit) || instruction.Is(Opcode::kRet);
    if (!leaves || !always) go(uint64_t{i} + 1);
  }
  return seen;
}

class Paths {
 public:
  explicit Paths(const ptx::Function& entry) : entry_(entry), reached_(entry.body.size()) {}
  bool Lead(uint32_t from, uint32_t to) {
    std::vector<bool>& reached = reached_[from];
    if (reached.empty()) {
      if (walks_ == kMostWalks) return true;
      ++walks_;
      reached = Reached(entry_, from);
    }
    return reached[to];
  }

 private:
  const ptx::Function& entry_;
  std::vector<std::vector<bool>> reached_;
  size_t walks_ = 0;
};

// Of the arrays that threads of a warp hand values through.
uint64_t SharedRoots(const ptx::Function& entry, const std::vector<Access>& accesses) {
  uint64_t roots = 0;
  Paths paths(entry);
  for (const Access& store : accesses) {
    if (!store.stores) continue;
    for (const Access& load : accesses) {
      if (load.stores || (store.roots & load.roots & ~roots) == 0) continue;
      const bool after = Neighbours(store, load) || ByTree(store, load);
      if ((after && paths.Lead(store.at, load.at)) ||
          (Overwrites(store, load) && paths.Lead(load.at, store.at)) ||
          (ByTile(store, load) && paths.Lead(store.at, load.at) && paths.Lead(load.at, store.at))) {
        roots |= store.roots & load.roots;
      }
    }
  }
  return roots;
}

}  // namespace

bool MeetsOthers(const ptx::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kBar:
    case Opcode::kBarrier:
    case Opcode::kShfl:
    case Opcode::kVote:
    case Opcode::kMatch:
    case Opcode::kRedux:
    case Opcode::kElect:
    case Opcode::kMma:
    case Opcode::kWmma:
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
    case Opcode::kMovmatrix:
      return true;
    default:
      return false;
  }
}

WarpExchange::WarpExchange(const ptx::Function& entry) {
  bool plain = false, old = false;
  for (const Instruction& instruction : entry.body) {
    if (!instruction.Is(Opcode::kSt)) continue;
    plain |= IsPlain(instruction);
    old |= IsVolatileShared(instruction);
  }
  if (old) MarkVolatile(entry);
  if (plain) MarkPlain(entry);
}

WarpExchange WarpExchange::Everywhere(const ptx::Function& entry) {
  WarpExchange exchange;
  for (uint32_t i = 0; i < entry.body.size(); ++i) {
    if (IsPlain(entry.body[i]) || IsVolatileShared(entry.body[i])) exchange.Mark(entry, i);
  }
  return exchange;
}

void WarpExchange::Mark(const ptx::Function& entry, uint32_t i) {
  steps_.resize(entry.body.size(), false);
  steps_[i] = true;
}

void WarpExchange::MarkVolatile(const ptx::Function& entry) {
  for (uint32_t i = 0; i < entry.body.size(); ++i) {
    if (IsVolatileShared(entry.body[i])) Mark(entry, i);
  }
}

void WarpExchange::MarkPlain(const ptx::Function& entry) {
  const AddressForms forms(entry);
  const std::vector<Access> accesses = PlainAccesses(entry, forms);
  const uint64_t roots = SharedRoots(entry, accesses);
  for (const Access& access : accesses) {
    if (access.roots & roots) Mark(entry, access.at);
  }
}

bool WarpExchange::StepsAtLoop(uint32_t first, uint32_t last) const {
  if (!any()) return false;
  return std::find(steps_.begin() + first, steps_.begin() + last + 1, true) !=
         steps_.begin() + last + 1;
}

}  // namespace farcall::cpu_device::jit
