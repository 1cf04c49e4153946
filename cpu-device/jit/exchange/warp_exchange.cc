// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/exchange/warp_exchange.h"

#include <algorithm>

#include "cpu-device/jit/address/address_form.h"
#include "cpu-device/jit/exchange/exchange_rules.h"

namespace farcall::cpu_device::jit {

using ptx::Instruction;
using ptx::Opcode;

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
  for (uint32_t i = 0; i < entry.body.size(); ++i)
    if (IsPlain(entry.body[i]) || IsVolatileShared(entry.body[i])) exchange.Mark(entry, i);
  return exchange;
}

void WarpExchange::Mark(const ptx::Function& entry, uint32_t i) {
  steps_.resize(entry.body.size(), false);
  steps_[i] = true;
}

void WarpExchange::MarkVolatile(const ptx::Function& entry) {
  for (uint32_t i = 0; i < entry.body.size(); ++i)
    if (IsVolatileShared(entry.body[i])) Mark(entry, i);
}

void WarpExchange::MarkPlain(const ptx::Function& entry) {
  const AddressForms forms(entry);
  const std::vector<ExchangeAccess> accesses = AccessesOf(entry, forms);
  ExchangeRules rules(entry, forms);
  auto for_pairs = [&](const auto& visit) {
    for (const ExchangeAccess& store : accesses) {
      if (!store.stores) continue;
      for (const ExchangeAccess& load : accesses)
        if (!load.stores && (store.roots & load.roots)) visit(store, load);
    }
  };
  // Of the arrays that threads of a warp hand values through.
  uint64_t roots = 0;
  for_pairs([&](const ExchangeAccess& store, const ExchangeAccess& load) {
    const uint64_t both = store.roots & load.roots;
    if ((both & ~roots) && rules.Exchange(store, load)) roots |= both;
  });
  for (const ExchangeAccess& access : accesses)
    if (access.roots & roots) Mark(entry, access.at);
  if (any()) return;
  for_pairs([&](const ExchangeAccess& store, const ExchangeAccess& load) {
    if (doubt_ || (store.roots & load.roots & roots)) return;
    if (rules.InDoubt(store, load)) doubt_ = &entry.body[load.at];
  });
}

bool WarpExchange::StepsAtLoop(uint32_t first, uint32_t last) const {
  if (!any()) return false;
  return std::find(steps_.begin() + first, steps_.begin() + last + 1, true) !=
         steps_.begin() + last + 1;
}

}  // namespace farcall::cpu_device::jit
