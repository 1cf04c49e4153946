// SPDX-License-Identifier: Apache-2.0
// The session's device memory: credit (backed ranges of the window, charged to the ledger) and the
// allocations in it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generated/server/driver_api.h"
#include "proto/wire.h"
#include "server/memory/memory_broker.h"
#include "sync/cond_var.h"

namespace farcall::server {

class HostSlabs;

// Physical memory is charged, created, mapped, and only then granted: an allocation inside credit
// is bookkeeping.
//   Thread  any
class DeviceMemory {
 public:
  DeviceMemory(const DriverApi& api, MemoryBroker& broker) : api_(api), broker_(broker) {}

  // Takes the first of the client's offers that the driver grants at the very address; its index,
  // or -1.
  int ReserveWindow(const std::vector<Window>& offers);
  bool has_window() const { return window_.bytes != 0; }
  const Window& window() const { return window_; }

  // Backs a contiguous range. CUDA_ERROR_OUT_OF_MEMORY with a line in `detail` if the quota or the
  // device refuses. `ahead`: so many bytes more behind it, in chunks of their own, so that they may
  // go back without it.
  CUresult Grant(int device, uint64_t bytes, Window* range, std::string* detail,
                 uint64_t ahead = 0);
  // In all chunks of the device, spent or not.
  uint64_t granted_bytes(int device) const;
  // What is free of the device to this session: what the ledger says, and what came back of chunks
  // that cannot go yet.
  uint64_t AvailableBytes(int device, const quota::Usage& usage) const;
  // An unspent range comes back; its chunks go when all of them has, and until then it may be
  // granted anew. False: it was no unspent credit (a lie).
  bool ReturnCredit(int device, uint64_t base, uint64_t bytes);

  // Marks [address, address + bytes) as an allocation of the context. False: not unspent credit of
  // that device (a lie).
  bool Allocate(int device, uint64_t address, uint64_t bytes, uint16_t context);
  // Without a window: the driver chooses the address.
  CUresult AllocateByDriver(int device, uint64_t bytes, uint16_t context, uint64_t* address,
                            std::string* detail);
  struct Freed {
    CUdeviceptr driver_address =
        0;  // to be freed by the driver once the fence has passed; 0: it was credit
    int device = 0;
    uint64_t bytes = 0;
  };
  // The allocation that begins at `address` is no more. False: there is none.
  bool Free(uint64_t address, Freed* freed);
  // After the fence of a driver's allocation; its context is current.
  void FinishFree(const Freed& freed);
  // All allocations of a context that is gone; credit they lay in is unspent again.
  void FreeContext(uint16_t context);

  // Lets a device into what lies on another one, now and later.
  CUresult AllowPeer(int owner, int accessor);

  // Puts the chunks an allocation lies in where other sessions of the vGPU can fetch them. The same
  // answer each time; it ends with the allocation.   Errors  INVALID_VALUE (no allocation of
  // credit begins there), NOT_SUPPORTED.   Thread  a helper
  struct Export {
    ShareToken token;
    uint64_t span_bytes = 0;  // of the chunks, and where in them the allocation begins
    uint64_t offset = 0;
  };
  CUresult ExportAllocation(uint64_t address, Export* out, std::string* detail);

  // Memory of an object that has no address here (an array, a module's variables), charged under
  // its wire handle. `context`: it ends with that one; kNoContext: with its owner alone.
  static constexpr uint16_t kNoContext = 0xFFFF;
  CUresult ChargeObject(int device, uint64_t bytes, uint16_t context, uint64_t owner,
                        std::string* detail);
  void RefundObject(uint64_t owner);
  // `owner` is going: its memory comes back when the driver is done with it, and RefundObject says
  // so. Who asks what is free, or finds too little, waits for that with AwaitLeaving, but not for
  // ever: a kernel may run wild.
  void ObjectLeaves(uint64_t owner);
  // Whether anything came back.   Thread  any that runs no driver callback
  bool AwaitLeaving();

  // Memory that is the session's without being an allocation (module globals).
  void AddForeign(uint64_t address, uint64_t bytes, uint64_t owner);
  void RemoveForeign(uint64_t owner);

  // ---- swapping: device_memory_swap.cc. Nothing of the session runs meanwhile.   Thread  one
  struct Moved {
    uint64_t bytes = 0;
    CUresult result = CUDA_SUCCESS;  // of the first chunk that could not
  };
  // Copies chunks into `slabs` and gives their memory back to the devices; the addresses stay
  // taken. What others may have mapped stays, and what lies on a device without a context.
  Moved MoveOut(const std::map<int, CUcontext>& contexts, HostSlabs& slabs);
  // And back to where they were. Those that came before one did not stay in.
  Moved MoveIn(const std::map<int, CUcontext>& contexts, HostSlabs& slabs);
  // Of a device's chunks, what is out.   Thread  any
  uint64_t out_bytes(int device) const;
  // Makes chunks of which a part came back smaller by that part, which is refunded: what lies in
  // the rest is copied to `slabs` and back to its addresses. Nothing of the session runs meanwhile.
  // A result that is no success: what lay in a chunk is lost.   Thread  one
  Moved SplitChunks(int device, CUcontext context, HostSlabs& slabs);
  // Whether that would make so many bytes free.   Thread  any
  bool SplitsFor(int device, uint64_t bytes);

  // Whether the whole range is the session's.
  bool Contains(uint64_t address, uint64_t bytes) const;
  quota::Usage Query(int device) { return broker_.Query(device); }

 private:
  struct Chunk {
    uint64_t bytes = 0;
    uint64_t returned_bytes = 0;
    int device = 0;
    CUmemGenericAllocationHandle handle = 0;
    bool exportable = false;
    bool being_shared = false;  // stays until that is settled
    bool shared = false;
    ShareToken token;          // if shared
    HostSlabs* out = nullptr;  // not on the device: its bytes are in a slab of these
    std::byte* slab = nullptr;
  };
  using Piece = std::pair<uint64_t, uint64_t>;  // base, bytes
  struct Span {
    uint64_t end = 0;
    int device = 0;
  };
  struct Allocation {
    uint64_t bytes = 0;
    int device = 0;
    uint16_t context = 0;
    bool by_driver = false;
  };
  struct Foreign {
    uint64_t bytes = 0;
    uint64_t owner = 0;
  };

  struct Object {
    int device = 0;
    uint64_t bytes = 0;
    uint16_t context = 0;
    bool leaving = false;
  };

  std::multimap<uint64_t, Object>::iterator DropObject(
      std::multimap<uint64_t, Object>::iterator object);
  uint64_t TakeRange(uint64_t bytes);
  // Once more if memory that was leaving came back.
  Status Charge(int device, uint64_t bytes);
  void PutRange(uint64_t base, uint64_t bytes);
  CUresult MapChunk(int device, uint64_t base, uint64_t bytes, Chunk* chunk);
  // No chunk lies on both sides of base + first.
  CUresult MapChunks(int device, uint64_t base, uint64_t bytes, uint64_t first,
                     std::map<uint64_t, Chunk>* made);
  CUresult GrantNew(int device, uint64_t bytes, uint64_t first, Window* range, std::string* detail,
                    bool* device_refused);
  void DropChunk(uint64_t base, const Chunk& chunk);
  Moved MoveDeviceOut(int device, CUstream stream, HostSlabs& slabs);
  Moved MoveDeviceIn(int device, CUstream stream, HostSlabs& slabs);
  // MapChunk, and who may reach the device may reach it.
  CUresult MapAgain(int device, uint64_t base, uint64_t bytes, Chunk* chunk);
  static bool MaySplit(const Chunk& chunk, int device);
  std::vector<Piece> KeptPieces(uint64_t base, const Chunk& chunk) const;
  uint64_t SplitChunk(uint64_t base, CUcontext context, CUstream stream, HostSlabs& slabs,
                      CUresult* result);
  // All of it has been returned: its memory and its charge go.
  std::map<uint64_t, Chunk>::iterator RetireChunk(std::map<uint64_t, Chunk>::iterator chunk);
  CUresult ShareChunk(uint64_t base, ShareToken* token, uint64_t* bytes, std::string* detail);
  void EndExport(uint64_t address);
  // Grants what has come back of chunks that are still in use. False: no range of it is so long.
  bool Regrant(int device, uint64_t bytes, Window* range);
  void AddCredit(uint64_t base, uint64_t bytes, int device);
  void RemoveCredit(uint64_t base, uint64_t bytes);
  bool InCredit(uint64_t address, uint64_t bytes, int device) const;  // device -1: any
  bool MeetsAllocation(uint64_t address, uint64_t bytes) const;

  const DriverApi& api_;
  MemoryBroker& broker_;
  Window window_;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_ranges_;  // of the window: base -> bytes
  std::map<uint64_t, Chunk> chunks_;
  std::map<uint64_t, Span> credit_;  // merged per device: base -> end
  std::map<uint64_t, Allocation> allocations_;
  std::map<uint64_t, Export> exports_;   // by allocation
  std::set<std::pair<int, int>> peers_;  // owner, accessor
  std::multimap<uint64_t, Foreign> foreign_;
  std::multimap<uint64_t, Object> objects_;  // by owner
  size_t leaving_ = 0;                       // of these
  CondVar left_;
};

}  // namespace farcall::server
