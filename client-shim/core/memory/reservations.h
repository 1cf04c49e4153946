// SPDX-License-Identifier: Apache-2.0
// Address ranges the application reserved, and what it mapped there. Addresses are chosen here, in
// the client's half of the window.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "proto/wire.h"

namespace farcall::client {

struct PhysicalMemory;

// Memory of several devices bound under one range of offsets (cuda/objects/multicast.cc).
struct Multicast {
  struct Binding {
    uint64_t offset = 0, bytes = 0;
    PhysicalMemory* memory = nullptr;  // counts as a mapping of it
  };
  bool whole() const { return team.size() == team_size; }

  size_t team_size = 0;
  std::vector<int> team;  // as the application counts
  std::vector<Binding> bindings;
};

// Memory of cuMemCreate or an import, or a multicast object. The server keeps it until neither a
// reference nor a mapping is left.
struct PhysicalMemory {
  uint64_t handle = 0;  // the application's and the wire's
  uint64_t bytes = 0;
  int device = 0;  // as the application counts
  CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;
  uint32_t references = 1;
  uint32_t mappings = 0;
  std::unique_ptr<Multicast> multicast;
  bool unused() const { return references == 0 && mappings == 0; }
};

struct MappedPiece {
  uint64_t address = 0;
  uint64_t bytes = 0;
  PhysicalMemory* memory = nullptr;
  std::vector<CUmemAccess_flags> access;  // by device; empty: none
  uint64_t offset = 0;                    // into the memory
};

//   Thread  under its mutex(), which also guards the physical memory: a record about either is
//           appended before it is given up
class Reservations {
 public:
  std::mutex& mutex() { return mutex_; }
  //   `server`  routing.h's index: each has its own window
  void SetWindow(const Window& window, uint8_t server = 0);
  bool has_window(uint8_t server = 0) const {
    return server < windows_.size() && windows_[server].bytes != 0;
  }
  // Whether an address is in any of the windows.
  bool Contains(uint64_t address) const;

  // At `hint` if that is free and aligned, else anywhere; 0 = no room. `align` a power of two, all
  // multiples of the chunk's.
  // `lent`: for memory of another process; the application cannot map or free anything there.
  uint64_t Reserve(uint64_t bytes, uint64_t align, uint64_t hint, bool lent = false,
                   uint8_t server = 0);
  // False: no reservation of that very size begins there, or something is mapped in it.
  bool Free(uint64_t address, uint64_t bytes, bool lent = false);

  // False: not inside one reservation, or something is mapped there.
  bool MayMap(uint64_t address, uint64_t bytes) const;
  void Map(const MappedPiece& piece);
  // The whole pieces that make up the range; empty: it is not made of such.
  std::vector<MappedPiece*> Whole(uint64_t address, uint64_t bytes);
  // The pieces that cover the range; empty: some of it is not mapped.
  std::vector<MappedPiece*> Covering(uint64_t address, uint64_t bytes);
  void Unmap(uint64_t address, uint64_t bytes);

 private:
  struct Range {
    Window window;
    bool lent = false;
  };
  // Inside one reservation of the application's.
  bool Reserved(uint64_t address, uint64_t bytes) const;

  std::mutex mutex_;
  std::vector<Window> windows_;
  std::map<uint64_t, Range> reserved_;
  std::map<uint64_t, MappedPiece> pieces_;
};

// The process's; leaked.
Reservations& UserRanges();

}  // namespace farcall::client
