// SPDX-License-Identifier: Apache-2.0
// A device library for fuzzing: every function is there and answers at once, with success or as the
// input says. It aborts when it is given what it was told to destroy.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "generated/server/driver_api.h"

namespace farcall::fuzz {

// Filled once. Windows and copies are real memory, so that an address let through wrongly faults.
const server::DriverApi& FuzzDevice();

// A native handle that nothing else has.
void* NewNative();

// How an input names a device function: does not depend on the order of the table.
constexpr uint16_t NameHash(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return static_cast<uint16_t>(hash ^ (hash >> 16));
}
std::span<const std::string_view> DeviceNames();

// The next `times` calls (a few at most) of the function answer `result` and do nothing.
void SetAnswer(uint16_t name_hash, int times, CUresult result);
// All answers are successes again, and the threads of host functions are gone: the session's end
// lets them go, `open` is called until they are.
void ResetDevice(void (*open)(void*), void* data);
// Host memory that a session now gone left registered.
void UnmapRegistered();

}  // namespace farcall::fuzz
