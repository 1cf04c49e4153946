// SPDX-License-Identifier: Apache-2.0
// Allocation of device, managed and pinned memory, charged to a device to the byte (in units of
// 512).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/memory/ranges.h"

namespace farcall::cpu_device {

class Context;

//   Errors  INVALID_VALUE (0 bytes), OUT_OF_MEMORY (beyond what the device has free)
CUresult AllocateDevice(Context& context, uint64_t bytes, RangeKind kind, unsigned flags,
                        std::shared_ptr<MemPool> pool, uint64_t* address, uint64_t align = 512);
// Frees what starts at `address` if it is of one of `kinds`; INVALID_VALUE otherwise. Does not wait
// for anything.
CUresult FreeDevice(uint64_t address, std::initializer_list<RangeKind> kinds);

// Pinned host memory, at one address for host and device.
CUresult AllocateHost(Context& context, uint64_t bytes, unsigned flags, void** pointer);
CUresult FreeHost(void* pointer);

// Frees every range of a context (its reservations and physical memory are nobody's).
void FreeContextMemory(const Context* context);

}  // namespace farcall::cpu_device
