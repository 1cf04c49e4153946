// SPDX-License-Identifier: Apache-2.0
// What the real libraries take of a device by themselves (cuBLAS's workspace, work areas that cuFFT
// makes), charged to the tenant before the driver is asked. They ask it through their own copies of
// the runtime, which find the driver's functions by dlsym: cli/programs/library_symbols.cc has that
// ask here.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "generated/server/driver_api.h"
#include "server/memory/device_memory.h"
#include "server/memory/memory_broker.h"
#include "sync/cond_var.h"

namespace farcall::server {

//   Thread  any
class LibraryMemory {
 public:
  // `recall` asks this session's own client for credit that it has not spent.
  LibraryMemory(const DriverApi& api, MemoryBroker& broker, DeviceMemory& memory,
                std::function<void(int device)> recall)
      : api_(api), broker_(broker), memory_(memory), recall_(std::move(recall)) {}
  LibraryMemory(const LibraryMemory&) = delete;

  // From now on what this process's libraries find is charged here. One of a process, and it stays:
  // libraries free what they have when the process ends.
  void Watch();
  // Nothing is charged any more: the session is gone.
  void Stop() { stopped_.store(true); }
  // What a library gets that looked `name` up and would have found `found`: itself, or a function
  // that charges.
  static void* Instead(const char* name, void* found);

  // The allocations of a context that is going, no longer known by their addresses; their charges
  // go with Refund, once it is gone.
  struct Taken {
    int device = 0;
    uint64_t bytes = 0;
    CUcontext context = nullptr;  // null: no context's
    bool has_address = false;     // its key is one; else a handle
  };
  // Whether the whole range is device memory that a library took: an address that a program may
  // have been given by it.
  static bool Holds(uint64_t address, uint64_t bytes);
  std::vector<Taken> Leave(CUcontext context);
  void Refund(const std::vector<Taken>& taken);

  // ---- the libraries' helper: what it has been given to do may end objects
  // From its submission to its end; null without a watcher.
  static std::shared_ptr<void> Submitted();
  // The calling thread is the helper's: the issue thread goes on meanwhile.
  static void OnHelper();
  // Whether something of that came to its end; not for ever, and never on the helper.
  static bool AwaitHelper();

  // ---- for the functions in the driver's place
  static LibraryMemory* Watching();
  const DriverApi& api() const { return api_; }
  // Charges, lets `make` fill the address (or handle), and remembers it. `context_owns`: it goes
  // with the current context.
  CUresult Take(int device, uint64_t bytes, bool context_owns,
                const std::function<CUresult(uint64_t* address)>& make);
  // And on the device of the current context.
  CUresult TakeHere(uint64_t bytes, const std::function<CUresult(uint64_t* address)>& make);
  // Lets `free` run, then refunds what lay there, if it was of a library.
  CUresult Give(uint64_t address, const std::function<CUresult()>& free);
  // Of the device, what is this tenant's.
  CUresult Info(size_t* free_bytes, size_t* total_bytes);

 private:
  CUresult Charge(int device, uint64_t bytes);
  bool Recall(int device);

  const DriverApi api_;
  MemoryBroker& broker_;
  DeviceMemory& memory_;
  const std::function<void(int device)> recall_;
  std::mutex mutex_;
  CondVar changed_;
  uint64_t submitted_ = 0, finished_ = 0;
  std::map<uint64_t, Taken> taken_;  // by address or handle
  std::atomic<bool> said_{false}, stopped_{false};
};

}  // namespace farcall::server
