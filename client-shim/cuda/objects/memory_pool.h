// SPDX-License-Identifier: Apache-2.0
// Stream-ordered pools: blocks that were freed in a stream's order wait here for the next
// allocation of that stream.
#pragma once

#include <cuda.h>

#include "client-shim/core/memory_map.h"
#include "proto/wire.h"

namespace farcall::client {

struct MemPool;

// The device's current pool.
MemPool* CurrentPool(int device);
MemPool* FindPool(CUmemoryPool handle);
CUmemoryPool HandleOf(const MemPool* pool);
int DeviceOf(const MemPool* pool);

// What lends a pool's memory to other processes of the vGPU (pool_ipc.cc).
struct PoolShare {
  unsigned handle_types = 0;  // it may be exported as; 0: stays here
  ShareToken token;           // once exported or imported
};
bool IsImported(const MemPool* pool);
PoolShare ShareOf(const MemPool* pool);
void SetShare(MemPool* pool, const PoolShare& share);
CUmemoryPool NewImportedPool(int device, const PoolShare& share);

// A block that `stream` has freed, if one fits; it needs nothing of the server.
bool TakeIdle(MemPool* pool, uint64_t wire_stream, uint64_t bytes, Allocation* block);
// False: over the pool's own limit; nothing is counted.
bool CountUsed(MemPool* pool, uint64_t bytes);
void CountUnused(MemPool* pool, uint64_t bytes);
// The application freed it in this stream's order.
void KeepIdle(MemPool* pool, uint64_t wire_stream, const Allocation& block);

// Gives idle blocks of the device's pools back to the credit. False: there were none.
bool ReleaseIdle(int server_device);
// The same for one stream's, which is about to be destroyed.
void ReleaseIdleOfStream(uint64_t wire_stream);
// The program waited for something: what pools keep above their threshold goes.
void TrimPoolsAtWait();
// What idle blocks the context's pools have are gone with it.
void DropPoolMemory(Context* context);

// Posts the free of a block that is in no map any more (memory.cc).
CUresult FreeBlock(const Allocation& block);

}  // namespace farcall::client
