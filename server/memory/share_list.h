// SPDX-License-Identifier: Apache-2.0
// Sharing inside a vGPU: memory under a token, and what an IPC handle's token names: a list of the
// pieces that make up an allocation, or the driver's bytes of an event.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "generated/server/driver_api.h"
#include "proto/wire.h"
#include "server/memory/memory_broker.h"

namespace farcall::server {

struct ShareList {
  struct Piece {
    ShareToken token;
    uint64_t bytes = 0;
  };
  std::vector<Piece> pieces;
  uint64_t bytes() const;
};

std::vector<std::byte> EncodeShareList(const ShareList& list);
bool DecodeShareList(const std::vector<std::byte>& bytes, ShareList* list);

// Exports physical memory whose bytes this worker has charged.
CUresult ShareMemory(const DriverApi& api, MemoryBroker& broker,
                     CUmemGenericAllocationHandle native, int device, uint64_t bytes,
                     ShareToken* token, std::string* detail);
// Some bytes under a token, which charge nothing; and what lies under one.
Status ShareBytes(MemoryBroker& broker, const std::vector<std::byte>& bytes, ShareToken* token);
Status ReadShared(MemoryBroker& broker, const ShareToken& token, std::vector<std::byte>* bytes);

}  // namespace farcall::server
