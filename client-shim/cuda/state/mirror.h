// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels may reach. Each allocation of it is mirrored on the server at the same
// address: what the program wrote goes up before work that may read it, what the device wrote comes
// down ahead of each word that work is done. Docs: docs/reference/client.md.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "client-shim/core/memory/host_window.h"
#include "client-shim/core/memory_map.h"
#include "client-shim/cuda/state/module.h"

namespace farcall::client {

enum class MirrorKind : uint8_t { kPinned, kManaged };

// Makes `[address, address + bytes)` reachable; whole pages of the host window. `from` is where the
// program has the bytes: the same, or memory it registered.
CUresult MakeMirror(uint64_t address, uint64_t bytes, uint64_t from, MirrorKind kind, int device);
// Memory that the server has adopted as a mirror of a variable, which devices have at
// `device_address`: its contents come here.
CUresult AdoptMirror(uint64_t address, uint64_t bytes, uint64_t device_address);
// Its memory, mirrored or shared, is about to go; the device has finished with it.
void EndMirror(uint64_t address);
// The program may write it while kernels run, though it is managed.
void SetConcurrent(uint64_t address);

// A page-locked allocation becomes reachable: its device address, or 0 with *status.
CUdeviceptr Expose(const Allocation& allocation, CUresult* status);

// The present call's device is about to use mirrored memory. Where another server's devices mirror
// it too, what they wrote is fetched; while they may still be writing, the call is refused.
void SettleMirror(const Allocation& allocation);

namespace mirror_internal {
extern std::atomic<uint32_t> g_mirrors, g_adopted;
void PushAll();
void PushSmall();
void PullAll();
uint64_t ExposeWord(uint64_t word);
uint64_t AddressOfVariable(uint64_t address);
// Asks the present call's server for the rest of what it told of; it comes as kMirrored, ahead of
// the answer.
CUresult AskForMore();
// Memory that other servers mirror, mirrored by the present call's as well: its device address, or
// 0 with *status.
CUdeviceptr ExposeToAnother(const Allocation& known, CUresult* status);
}  // namespace mirror_internal

inline bool AnyMirrors() {
  return mirror_internal::g_mirrors.load(std::memory_order_relaxed) != 0;
}
// Before work that may reach host memory is put on a stream.
inline void PushMirrors() {
  if (AnyMirrors()) [[unlikely]]
    mirror_internal::PushAll();
}
// Before a wait: what the program wrote since to small page-locked allocations, for which work
// under way may wait.
inline void PushMirrorsAtWait() {
  if (AnyMirrors()) [[unlikely]]
    mirror_internal::PushSmall();
}
// After a wait. What the device wrote has come by then; the server is asked only where it said that
// there is more than it sends unasked.
inline void PullMirrors() {
  if (AnyMirrors()) [[unlikely]]
    mirror_internal::PullAll();
}
// Where the device has what the program has at `address`: the same, but for variables, of which
// what the program wrote goes up.
inline uint64_t DeviceAddress(uint64_t address) {
  if (mirror_internal::g_adopted.load(std::memory_order_relaxed) == 0) [[likely]]
    return address;
  return mirror_internal::AddressOfVariable(address);
}
// A parameter larger than this makes nothing reachable: such are tables of a fixed size that
// programs fill in part, with whatever lay on their stack in the rest (PyTorch's concatenation),
// and a stray address would cost a fetch at every wait.
inline constexpr uint32_t kMaxExposedBytes = 64;

// A kernel's parameter: what points into page-locked memory makes that reachable. A variable's
// address becomes the device's.
inline void ExposeParameter(uint32_t bytes, std::byte* value) {
  if (bytes > kMaxExposedBytes) return;
  for (; bytes >= 8; bytes -= 8, value += 8) {
    uint64_t word;
    __builtin_memcpy(&word, value, 8);
    if (HostWindow::Holds(word)) [[unlikely]] {
      word = mirror_internal::ExposeWord(word);
      __builtin_memcpy(value, &word, 8);
    }
  }
}
// All parameters of a kernel, packed.
inline void ExposeParameters(const KernelInfo& info, std::byte* packed) {
  for (const Parameter& parameter : info.parameters)
    ExposeParameter(parameter.bytes, packed + parameter.offset);
}

}  // namespace farcall::client
