// SPDX-License-Identifier: Apache-2.0
// A device, and the process-wide state of the driver. All of it lives for ever: libraries call back
// during process exit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/profile.h"
#include "cpu-device/driver/base/registry.h"
#include "cpu-device/driver/memory/arena.h"
#include "cpu-device/driver/memory/ranges.h"

namespace farcall::cpu_device {

class Context;
class Event;
class Function;
class Library;
class MemPool;
class Module;
class Stream;
class Graph;
class GraphExec;
class UserObject;

class Device {
 public:
  Device(int ordinal, int number, const Profile& profile);

  const int ordinal;
  const int number;  // on this machine: CUDA_VISIBLE_DEVICES may have renumbered the ordinals
  const Profile& profile;
  CUuuid uuid{};

  uint64_t total() const { return profile.memory_bytes; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // false and nothing charged: it does not fit.
  bool Charge(uint64_t bytes);
  void Refund(uint64_t bytes);

  std::mutex primary_mutex;
  std::shared_ptr<Context> primary;  // made with the device, active while retained
  unsigned primary_users = 0;

  std::shared_ptr<MemPool> default_pool, current_pool;
  std::mutex pool_mutex;

  std::string PciBusId() const;

 private:
  std::atomic<uint64_t> used_{0};
};

struct Driver {
  std::atomic<bool> initialized{false};
  std::atomic<bool> forked{false};  // in a child that inherited an initialised driver
  Profile profile;
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Arena> arena;
  // Held by work that touches device memory; alone by who moves some of it to other pages.
  std::shared_mutex memory_in_use;
  RangeMap ranges;

  Registry<Context> contexts;
  std::mutex graveyard_mutex;
  std::vector<std::shared_ptr<Context>> graveyard;  // destroyed contexts
  Registry<Stream> streams;                         // those a program made
  Registry<Event> events;
  Registry<Module> modules;
  Registry<Function> functions;
  Registry<Library> libraries;
  Registry<MemPool> pools;
  Registry<Graph> graphs;
  Registry<GraphExec> graph_execs;
  Registry<UserObject> user_objects;
};

Driver& TheDriver();

// cuInit's work: reads the profile, makes the devices. Once.
CUresult InitializeDriver();

// CUDA_SUCCESS, or NOT_INITIALIZED before cuInit and in a forked child, or NOT_PERMITTED inside a
// stream callback.
CUresult CheckInitialized();
// nullptr: no such device.
Device* FindDevice(CUdevice ordinal);

// The calling thread's current context, after CheckInitialized; its sticky error if it has one.
CUresult CurrentContext(std::shared_ptr<Context>* context);
// The same for a call that is still answered in a broken context.
CUresult CurrentContextEvenBroken(std::shared_ptr<Context>* context);

}  // namespace farcall::cpu_device
