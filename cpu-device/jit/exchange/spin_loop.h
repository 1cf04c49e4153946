// SPDX-License-Identifier: Apache-2.0
// Which loops wait for what another thread writes.
#pragma once

#include <cstdint>

#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::jit {

// Whether the loop of the instructions `first` to `last` (its branch back) may end by what another
// thread does: it sleeps, or decides by what an atomic operation, a strong load or a load beside
// one gave it, or by a clock. A loop that only counts with atomics or over volatile memory, or
// takes the time of what it does, is none.
bool IsSpinLoop(const ptx::Function& function, uint32_t first, uint32_t last);
// Of these, one that looks again and again, by strong loads or at the clock: threads one after the
// other would never see what it waits for, or would each wait as long as all should together. A
// loop over atomics alone they may run so: a lock is free when the next one asks.
bool WaitsByLooking(const ptx::Function& function, uint32_t first, uint32_t last);

}  // namespace farcall::cpu_device::jit
