// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/exchange/exchange_rules.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

namespace farcall::cpu_device::jit {

using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;
using ptx::Space;

namespace {

constexpr int64_t kLanes = 32;
constexpr int64_t kMaxPlaces = 16;    // from a thread to the one whose value it takes
constexpr int64_t kWidest = 1 << 20;  // bytes from thread to thread

// A function that stores to memory that is not its own.
bool Stores(const ptx::Function& function) {
  return std::any_of(
      function.body.begin(), function.body.end(), [](const Instruction& instruction) {
        const Space space = instruction.mods.space;
        return instruction.Is(Opcode::kSt) && (space == Space::kNone || space == Space::kShared);
      });
}
bool Loads(const ptx::Function& function) {
  return std::any_of(
      function.body.begin(), function.body.end(), [](const Instruction& instruction) {
        const Space space = instruction.mods.space;
        return instruction.Is(Opcode::kLd) && (space == Space::kNone || space == Space::kShared);
      });
}

// Pointers into shared memory go into functions: what these do with them is not looked at.
void AddCall(const Instruction& instruction, uint32_t at, const AddressForms& forms,
             std::vector<ExchangeAccess>* accesses) {
  const auto& ops = instruction.operands;
  if (ops.size() < 2 || !ops[1].function) return;
  const ptx::Function& callee = *ops[1].function;
  ExchangeAccess access;
  access.at = at;
  access.call = access.shared = true;
  access.roots = forms.RootsOfCall(instruction) & forms.SharedRoots();
  if (access.roots == 0) return;
  if (Loads(callee)) accesses->push_back(access);
  access.stores = true;
  if (Stores(callee)) accesses->push_back(access);
}

bool Overlap(int64_t apart, const ExchangeAccess& first, const ExchangeAccess& second) {
  return -second.bytes < apart && apart < first.bytes;
}

// One thread's bytes of the one are another thread's of the other, some places on: few enough that
// both are of one warp where a row of the block is shorter than that.
bool Neighbours(const ExchangeAccess& a, const ExchangeAccess& b) {
  const int64_t stride = a.stride;
  if (stride == 0 || stride != b.stride || std::abs(stride) > kWidest) return false;
  if (a.tangled || a.rest.terms != b.rest.terms) return false;
  const int64_t apart = b.rest.constant - a.rest.constant;
  if (std::abs(apart) > kMaxPlaces * kWidest) return false;
  for (int64_t places = 1; places < kMaxPlaces; ++places)
    if (Overlap(apart - places * stride, a, b) || Overlap(apart + places * stride, a, b))
      return true;
  return false;
}

// All threads load what one of them stores afterwards: x[row + column], then x[row + t]. The row
// has to be in both, or a pivot and what is divided by it would be taken for that.
bool Overwrites(const ExchangeAccess& store, const ExchangeAccess& load) {
  if (load.by_thread || store.tangled || store.stride == 0 || store.at < load.at) return false;
  size_t common = 0, columns = 0;
  for (const auto& [symbol, count] : load.rest.terms) {
    auto it = store.rest.terms.find(symbol);
    if (it != store.rest.terms.end() && it->second == count)
      ++common;
    else if (it == store.rest.terms.end() && count == store.stride)
      ++columns;
    else
      return false;
  }
  return columns == 1 && common == store.rest.terms.size() && common >= 2;
}

bool ByTree(const ExchangeAccess& store, const ExchangeAccess& load) {
  return store.by_thread && load.by_thread && (store.scaled || load.scaled) &&
         (store.roots & load.roots);
}

bool IsTile(const ExchangeAccess& access) {
  return access.in_shared && access.by_thread && access.known;
}

// A thread stores to its place of a tile and loads from places that others have: t, then t / 8.
bool ByTile(const ExchangeAccess& store, const ExchangeAccess& load) {
  return IsTile(store) && IsTile(load) && store.part.terms != load.part.terms;
}

bool IsLookedUp(const AddressForms& forms, const ExchangeAccess& access) {
  auto fetched = [&](const auto& term) { return forms.IsFetched(term.first); };
  return std::any_of(access.part.terms.begin(), access.part.terms.end(), fetched) ||
         std::any_of(access.common.terms.begin(), access.common.terms.end(), fetched);
}

// Places of one part of an array: of both addresses what does not hang on the thread is the same,
// but for the block, how far a loop has come and what was looked up in memory. Otherwise they may
// be of two arrays in one memory, or of two halves of which one is filled while the other is read.
bool InOnePart(const AddressForms& forms, const ExchangeAccess& store, const ExchangeAccess& load) {
  bool our_block = false, their_block = false;
  for (const auto& [symbol, count] : store.common.terms) {
    auto same = load.common.terms.find(symbol);
    if (same != load.common.terms.end() && same->second == count) continue;
    if (!forms.ByBlock(symbol)) return false;
    our_block = true;
  }
  for (const auto& [symbol, count] : load.common.terms) {
    auto same = store.common.terms.find(symbol);
    if (same != store.common.terms.end() && same->second == count) continue;
    if (forms.IsStep(symbol)) continue;
    if (!forms.ByBlock(symbol)) return false;
    their_block = true;
  }
  return our_block == their_block || IsLookedUp(forms, load);
}

// Bytes from a lane's place to the next one's.
int64_t UnitOf(const ExchangeAccess& store) {
  int64_t unit = kWidest;
  for (const auto& term : store.part.terms) unit = std::min(unit, std::abs(term.second));
  return unit;
}

// x[t], then x[t + i] with an i that a loop counts by less than a warp.
bool StepsOverLanes(const AddressForms& forms, const ExchangeAccess& store,
                    const ExchangeAccess& load) {
  const int64_t unit = UnitOf(store);
  return std::any_of(load.common.terms.begin(), load.common.terms.end(), [&](const auto& term) {
    if (store.common.terms.contains(term.first)) return false;
    const int64_t step = std::abs(forms.StepOf(term.first) * term.second);
    return step >= unit && step < kLanes * unit;
  });
}

// x[0], or x[t & ~31]: the reader's own place where one lane reads, as at the end of a sum by tree.
// Where all do, the first thread has stored before the others come here.
bool IsOfTheFirst(const AddressForms& forms, const ExchangeAccess& load) {
  auto is_step = [&](const auto& term) { return forms.IsStep(term.first); };
  auto is_part = [&](const auto& term) { return forms.RoundsDown(term.first); };
  return std::none_of(load.common.terms.begin(), load.common.terms.end(), is_step) &&
         std::all_of(load.part.terms.begin(), load.part.terms.end(), is_part);
}

// Places of the thread's own, by its number or parts of it.
bool IsByPlace(const AddressForms& forms, const ExchangeAccess& access) {
  const auto& terms = access.part.terms;
  return std::all_of(terms.begin(), terms.end(),
                     [&](const auto& term) { return forms.IsPlace(term.first); });
}

// A lane may gather: the store is to each lane's own place, the load is from one that others have,
// as x[t], then x[warp * 32 + i] or, by thread 0 alone, x[i]. It begins among a warp's places.
bool Gathers(const AddressForms& forms, const ExchangeAccess& store, const ExchangeAccess& load) {
  if (!store.known || !load.known || store.part.terms.empty()) return false;
  if (!IsByPlace(forms, store) || !InOnePart(forms, store, load)) return false;
  const int64_t apart = load.common.constant - store.common.constant;
  if (std::abs(apart) >= kLanes * UnitOf(store)) return false;
  if (apart == 0 && IsOfTheFirst(forms, load)) return false;
  return store.part.terms != load.part.terms || StepsOverLanes(forms, store, load);
}

// Memory outside of a block's own is read in many ways without an exchange: what is one is a loop
// over lanes' places, or what is left of it.
bool IsPlainlyAll(const AddressForms& forms, const ExchangeAccess& store,
                  const ExchangeAccess& load) {
  return !IsLookedUp(forms, load) && IsByPlace(forms, load) &&
         (StepsOverLanes(forms, store, load) || load.series >= kLanes / 2);
}

// The bytes of the two are the same thread by thread, or lie apart in one thread's record.
bool SamePlaces(const ExchangeAccess& a, const ExchangeAccess& b) {
  return a.stride == b.stride && a.rest.terms == b.rest.terms;
}

}  // namespace

bool IsPlain(const Instruction& instruction) {
  if (!instruction.Is(Opcode::kLd) && !instruction.Is(Opcode::kSt)) return false;
  if (instruction.mods.nc || instruction.mods.async || instruction.Has("bulk")) return false;
  const bool is_volatile = instruction.mods.semantics == ptx::Semantics::kVolatile;
  if (instruction.mods.semantics > ptx::Semantics::kWeak && !is_volatile) return false;
  const Space space = instruction.mods.space;
  return space == Space::kNone || space == Space::kGlobal ||
         (space == Space::kShared && !is_volatile);
}

bool IsVolatileShared(const Instruction& instruction) {
  return (instruction.Is(Opcode::kLd) || instruction.Is(Opcode::kSt)) &&
         instruction.mods.semantics == ptx::Semantics::kVolatile &&
         instruction.mods.space == Space::kShared;
}

std::vector<ExchangeAccess> AccessesOf(const ptx::Function& entry, const AddressForms& forms) {
  std::vector<ExchangeAccess> accesses;
  std::map<std::tuple<uint64_t, int64_t, std::map<AddressForm::Symbol, int64_t>>, uint32_t> series;
  for (uint32_t i = 0; i < entry.body.size(); ++i) {
    const Instruction& instruction = entry.body[i];
    const bool stores = instruction.Is(Opcode::kSt);
    if (instruction.Is(Opcode::kCall)) AddCall(instruction, i, forms, &accesses);
    if (!IsPlain(instruction) || instruction.operands.size() < 2) continue;
    const Operand& address = instruction.operands[stores ? 0 : 1];
    if (!address.Is(Operand::Kind::kAddress)) continue;
    ExchangeAccess access;
    access.at = i;
    access.stores = stores;
    access.bytes = ptx::BytesOf(instruction.type()) * instruction.mods.vector;
    access.by_thread = forms.ByThread(address);
    access.scaled = forms.ByScaledLoop(address);
    access.roots = forms.Roots(address);
    access.rest = forms.Of(address);
    access.in_shared = instruction.mods.space == Space::kShared;
    access.shared = access.in_shared || (access.roots & ~forms.SharedRoots()) == 0;
    access.known = forms.ThreadPart(access.rest, &access.part);
    access.common = access.rest;
    for (const auto& term : access.part.terms) access.common.terms.erase(term.first);
    access.stride = access.rest.TakeThread();
    access.tangled = forms.IsTangled(access.rest);
    if (!stores) ++series[{access.roots, access.stride, access.rest.terms}];
    accesses.push_back(std::move(access));
  }
  for (ExchangeAccess& access : accesses) {
    auto own = series.find({access.roots, access.stride, access.rest.terms});
    if (!access.stores && own != series.end()) access.series = own->second;
  }
  return accesses;
}

// Some threads store to a place, and others come to the load of it without having been at the
// store.
bool ExchangeRules::Tells(const ExchangeAccess& store, const ExchangeAccess& load) {
  if (!SamePlaces(store, load) || store.stride != 0) return false;
  if (!Overlap(load.rest.constant - store.rest.constant, store, load)) return false;
  const Instruction& itself = entry_.body[store.at];
  if (itself.guard != ptx::kNoRegister && forms_.ByThread(itself.guard))
    return paths_.Lead(store.at, load.at);
  for (uint32_t i = 0; i < store.at; ++i) {
    const Instruction& branch = entry_.body[i];
    if (!branch.Is(Opcode::kBra) || branch.guard == ptx::kNoRegister) continue;
    if (!forms_.ByThread(branch.guard)) continue;
    const auto target = static_cast<uint32_t>(branch.operands[0].value);
    auto apart = [&](uint32_t stores, uint32_t others) {
      return paths_.LeadFrom(stores, store.at) && !paths_.LeadFrom(others, store.at) &&
             paths_.LeadFrom(others, load.at);
    };
    if (apart(i + 1, target) || apart(target, i + 1)) return paths_.Lead(store.at, load.at);
  }
  return false;
}

bool ExchangeRules::Exchange(const ExchangeAccess& store, const ExchangeAccess& load) {
  if (store.call || load.call) return paths_.Lead(store.at, load.at);
  const bool after =
      Neighbours(store, load) || ByTree(store, load) ||
      (Gathers(forms_, store, load) && (store.shared || IsPlainlyAll(forms_, store, load)));
  if (after && paths_.Lead(store.at, load.at)) return true;
  if (Overwrites(store, load) && paths_.Lead(load.at, store.at)) return true;
  if (ByTile(store, load) && paths_.Lead(store.at, load.at) && paths_.Lead(load.at, store.at))
    return true;
  return store.shared && Tells(store, load);
}

bool ExchangeRules::InDoubt(const ExchangeAccess& store, const ExchangeAccess& load) {
  if (store.call || load.call || SamePlaces(store, load) || !store.by_thread) return false;
  const bool both = store.known && load.known;
  if (both ? !Gathers(forms_, store, load) : !store.shared) return false;
  if (both && !store.shared && !IsLookedUp(forms_, load)) return false;
  return paths_.Lead(store.at, load.at);
}

}  // namespace farcall::cpu_device::jit
