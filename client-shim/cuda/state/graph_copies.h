// SPDX-License-Identifier: Apache-2.0
// Copies between a graph and host memory. The graph holds a copy from or to a mirror, device memory
// of the session's own; each launch reads the host source into it before, and lands it in the host
// destination behind. A host node in between gets what was copied before it, and what it writes is
// read after it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "client-shim/core/session/contexts.h"

namespace farcall::client {

struct Graph;

// Device memory that stands for a range of host memory. Copies of one range share one mirror, so
// that the graph's own order decides what a copy to the device finds that another brought home.
struct GraphMirror {
  CUdeviceptr address = 0;
  uint64_t host = 0;
  uint64_t bytes = 0;
  Context* context = nullptr;
  bool lands = false;  // some copy goes to the host
  ~GraphMirror();
};

// One box of host memory that a node reads or writes, on its mirror at the same offsets.
struct HostCopy {
  std::shared_ptr<GraphMirror> mirror;
  uint64_t host = 0;              // of the box's first byte
  uint64_t pitch = 0, slice = 0;  // bytes from row to row, and from slice to slice
  uint64_t width = 0, height = 1, depth = 1;
  bool to_host = false;
  uint64_t extent() const { return (depth - 1) * slice + (height - 1) * pitch + width; }
};

//   Errors  OUT_OF_MEMORY, NOT_SUPPORTED (it overlaps another copy's range in part, and one of them
//           goes to the host: which bytes are whose is not settled by the graph's order here)
CUresult MakeGraphMirror(HostCopy* copy);
// The host address that an address inside a mirror stands for; 0: it is in none.
uint64_t HostOfMirror(CUdeviceptr address);

struct PlannedCopy {
  std::shared_ptr<HostCopy> copy;
  uint64_t node = 0;           // 0: nobody can name it
  bool conditional = false;    // may not run: then what lands must be what was there
  bool landed_inside = false;  // a host node brings it home
};
struct PlannedHost {
  uint64_t function = 0;
  std::vector<std::shared_ptr<HostCopy>> before, after;
};

// What a launch does besides.
struct LaunchPlan {
  std::vector<PlannedCopy> copies;
  std::vector<PlannedHost> hosts;
  std::vector<CUevent> records;  // events that the graph records
  bool empty() const { return copies.empty() && records.empty(); }
};

//   Errors  NOT_SUPPORTED (host nodes and host copies whose order nobody knows)
CUresult MakePlan(Graph* graph, LaunchPlan* plan);
// Host nodes find what they must bring and send by their function's number.
void AnnouncePlan(const LaunchPlan& plan);

CUresult SendSources(const LaunchPlan& plan, const std::set<uint64_t>& disabled, uint64_t stream);
CUresult LandResults(const LaunchPlan& plan, const std::set<uint64_t>& disabled, uint64_t stream);
// The events are recorded when the stream is here.
CUresult NoteRecords(const LaunchPlan& plan, CUstream stream);

// A host node's function: `call` between the copies of the launch that runs.
uint64_t RegisterGraphFunction(CUhostFn function, void* user_data);
// What the number stands for; false: nothing.
bool FindGraphFunction(uint64_t number, CUDA_HOST_NODE_PARAMS_v2* params);

}  // namespace farcall::client
