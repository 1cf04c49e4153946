// SPDX-License-Identifier: Apache-2.0
// Memory of allocation nodes: ordinary device memory of the session, there from the node's creation
// until the last graph that names it and the program have let it go. What launches and frees change
// is whether it is in use; so its address never changes, and a launch allocates nothing.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace farcall::client {

struct Graph;

class GraphMemory {
 public:
  //   Errors  INVALID_VALUE (0 bytes), OUT_OF_MEMORY
  static CUresult Make(uint64_t bytes, std::shared_ptr<GraphMemory>* made);
  static std::shared_ptr<GraphMemory> Find(CUdeviceptr address);
  GraphMemory(int on, CUdeviceptr at, uint64_t size) : device(on), address(at), bytes(size) {}
  ~GraphMemory();

  bool live() const { return live_.load(); }
  // A launch has allocated it: it stays though its graphs go.
  void Use(const std::shared_ptr<GraphMemory>& self);
  void Unuse();

  const int device;
  const CUdeviceptr address;
  const uint64_t bytes;
  const Graph* owner = nullptr;     // for comparison
  const Graph* freed_by = nullptr;  // the graph that has its free node
  CUmemPoolProps props{};

 private:
  std::atomic<bool> live_{false};
};

// Memory of ours, freed on behalf of nobody: a late error of another call stays for the next one.
void FreeQuietly(CUdeviceptr address);

// cuMemFree and cuMemFreeAsync of such memory. False: it is none.
bool FreeGraphMemory(CUdeviceptr address, CUresult* result);

}  // namespace farcall::client
