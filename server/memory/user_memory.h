// SPDX-License-Identifier: Apache-2.0
// Device memory the application creates and maps itself, and what other sessions of the vGPU lent
// it: mappings in the upper half of the window.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "generated/server/driver_api.h"
#include "proto/wire.h"
#include "server/memory/memory_broker.h"

namespace farcall::server {

struct PhysicalMemory;

// Memory of several devices bound under one range of offsets.
struct Multicast {
  struct Binding {
    int device = 0;
    uint64_t offset = 0, bytes = 0;
    PhysicalMemory* memory = nullptr;  // counts as a mapping of it
  };
  bool whole() const { return team.size() == team_size; }
  // Counts it as a mapping of its memory; false if it overlaps another of the device's.
  bool Add(const Binding& binding);
  // False: there is none such.
  bool Drop(int device, uint64_t offset, uint64_t bytes);

  uint64_t team_size = 0;
  std::vector<int> team;
  std::vector<Binding> bindings;
};

// Charged from its creation until it goes. Shared, its charge is the vGPU's until its last holder
// lets go.
struct PhysicalMemory {
  CUmemGenericAllocationHandle native = 0;
  uint64_t bytes = 0;
  int device = 0;
  // And whoever else needs it to stay.
  std::shared_ptr<std::atomic<uint32_t>> mappings = std::make_shared<std::atomic<uint32_t>>(0);
  bool exportable = false;
  bool shared = false;
  ShareToken token;       // if shared
  bool imported = false;  // another session's: not in this one's use
  // Of a multicast object, which is of no device and charged to none.
  std::unique_ptr<Multicast> multicast;
};

// Properties of memory that may be exported, if the device can.
CUmemAllocationProp PinnedProperties(int device, bool exportable);

//   Thread  any; a piece of physical memory: one thread at a time
class UserMemory {
 public:
  UserMemory(const DriverApi& api, MemoryBroker& broker) : api_(api), broker_(broker) {}

  void SetWindow(const Window& window) { window_ = window; }
  bool has_window() const { return window_.bytes != 0; }

  // Charged, then created. CUDA_ERROR_OUT_OF_MEMORY with a line if the quota or the device refuses.
  // `flags`: kMemoryExportable, kMemoryUsages.
  CUresult Create(int device, uint64_t bytes, uint32_t flags,
                  std::unique_ptr<PhysicalMemory>* memory, std::string* detail);
  // The same token each time.
  CUresult Export(PhysicalMemory& memory, ShareToken* token, std::string* detail);
  CUresult Import(const ShareToken& token, std::unique_ptr<PhysicalMemory>* memory,
                  std::string* detail);
  // It is mapped nowhere.
  void Release(PhysicalMemory& memory);

  // A multicast object for so many devices. They join and bind on the memory helper.
  CUresult CreateMulticast(uint64_t bytes, uint64_t devices,
                           std::unique_ptr<PhysicalMemory>* object);
  CUresult Join(PhysicalMemory& object, int device);
  // Whether every device has joined: the driver would wait for that.
  bool Whole(const PhysicalMemory& object) const;
  CUresult Bind(PhysicalMemory& object, uint64_t offset, PhysicalMemory& memory,
                uint64_t memory_offset, uint64_t bytes);
  // False: nothing is bound just so (a lie).
  bool Unbind(PhysicalMemory& object, int device, uint64_t offset, uint64_t bytes,
              CUresult* result);

  // False: not within the window, or something is mapped there (a lie).
  bool MayMap(uint64_t address, uint64_t bytes) const;
  CUresult Map(uint64_t address, uint64_t bytes, uint64_t offset, PhysicalMemory& memory);
  // False: the range is not made of whole mappings of the application's (a lie).
  bool Unmap(uint64_t address, uint64_t bytes, CUresult* result);
  // False: part of the range is not mapped (a lie).
  bool SetAccess(uint64_t address, uint64_t bytes, const CUmemAccessDesc& access, CUresult* result);

  // What an IPC handle's token names, mapped from `address` on, `bytes` in all.
  CUresult OpenIpc(const ShareToken& token, uint64_t address, uint64_t bytes, int* device,
                   std::string* detail);
  bool HasIpc(uint64_t address) const;
  void CloseIpc(uint64_t address);

  // Whether all of it is mapped and may be used.
  bool Contains(uint64_t address, uint64_t bytes) const;

 private:
  struct Mapping {
    uint64_t bytes = 0;
    PhysicalMemory* memory = nullptr;
    bool accessible = false;
    bool lent = false;  // of an IPC handle: not the application's to unmap
  };
  using Mappings = std::map<uint64_t, Mapping>;
  struct Lent {
    std::vector<std::unique_ptr<PhysicalMemory>> chunks;
    uint64_t bytes = 0;
  };

  bool OverlapsLocked(uint64_t address, uint64_t bytes) const;
  CUresult MapLent(const std::vector<std::byte>& list, uint64_t address, uint64_t bytes, Lent* lent,
                   int* device, std::string* detail);
  void UnmapLent(uint64_t address, Lent& lent);
  void ReleaseMulticast(PhysicalMemory& object);

  const DriverApi& api_;
  MemoryBroker& broker_;
  Window window_;
  mutable std::mutex mutex_;
  Mappings mappings_;
  std::map<uint64_t, Lent> lent_;
};

class Session;
// Under its wire handle. It belongs to no context: nothing but its release, or the session's end,
// ends it.
void KeepMemory(Session& session, uint64_t handle, std::unique_ptr<PhysicalMemory> memory);

}  // namespace farcall::server
