// SPDX-License-Identifier: Apache-2.0
// What says of a store and a load that threads of a warp hand each other values by them.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu-device/jit/address/address_form.h"
#include "cpu-device/jit/exchange/exchange_paths.h"
#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::jit {

// Of an instruction to memory that threads share.
struct ExchangeAccess {
  uint32_t at = 0;  // instruction
  bool stores = false, by_thread = false, scaled = false, tangled = false;
  bool in_shared = false;  // so it says
  bool shared = false;     // so it says, or its pointer does
  bool call = false;       // of a function, through a pointer that it is given
  bool known = false;      // `part` says how the thread goes into the address, `common` the rest
  AddressForm part, common;
  int64_t bytes = 0, stride = 0;  // of the access; from thread to thread
  uint64_t roots = 0;
  uint32_t series = 0;  // of a load: loads of such an address and some number of bytes
  AddressForm rest;     // of its address, without the thread's number
};

// By plain loads and stores, by volatile ones outside of shared memory, and by calls.
std::vector<ExchangeAccess> AccessesOf(const ptx::Function& entry, const AddressForms& forms);
// Volatile accesses to shared memory.
bool IsVolatileShared(const ptx::Instruction& instruction);
bool IsPlain(const ptx::Instruction& instruction);

class ExchangeRules {
 public:
  ExchangeRules(const ptx::Function& entry, const AddressForms& forms)
      : entry_(entry), forms_(forms), paths_(entry) {}

  // Of accesses to one array: a load gives what another thread of the warp has stored, or has to
  // come before it is overwritten.
  bool Exchange(const ExchangeAccess& store, const ExchangeAccess& load);
  // Nothing says whether it does.
  bool InDoubt(const ExchangeAccess& store, const ExchangeAccess& load);

 private:
  bool Tells(const ExchangeAccess& store, const ExchangeAccess& load);

  const ptx::Function& entry_;
  const AddressForms& forms_;
  ExchangePaths paths_;
};

}  // namespace farcall::cpu_device::jit
