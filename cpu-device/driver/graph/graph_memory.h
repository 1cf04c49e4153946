// SPDX-License-Identifier: Apache-2.0
// Memory of allocation nodes. It is there from the node's creation until the last graph that names
// it and the program have let it go; what launches and frees change is whether it is in use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cpu-device/driver/base/api.h"

namespace farcall::cpu_device {

class Context;
class Graph;

class GraphMemory {
 public:
  //   Errors  INVALID_VALUE (0 bytes), OUT_OF_MEMORY
  static CUresult Make(Context& context, uint64_t bytes, std::shared_ptr<GraphMemory>* made);
  // The memory that starts at `address`; nullptr if none does.
  static std::shared_ptr<GraphMemory> Find(uint64_t address);
  GraphMemory(int on, uint64_t at, uint64_t size) : device(on), address(at), bytes(size) {}
  ~GraphMemory();

  bool live() const { return live_; }
  // A launch has allocated it; what is in use stays though its graphs go.
  void Use(const std::shared_ptr<GraphMemory>& self);
  void Unuse();

  const int device;
  const uint64_t address;
  const uint64_t bytes;
  const Graph* owner = nullptr;     // for comparison
  const Graph* freed_by = nullptr;  // the graph with its free node

 private:
  std::atomic<bool> live_{false};
};

// cuMemFree and cuMemFreeAsync of such memory. False: it is none.
bool FreeGraphMemory(uint64_t address, CUresult* result);

CUresult GetGraphMemoryAttribute(int device, CUgraphMem_attribute attribute, cuuint64_t* value);
CUresult ResetGraphMemoryAttribute(int device, CUgraphMem_attribute attribute);

}  // namespace farcall::cpu_device
