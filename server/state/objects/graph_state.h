// SPDX-License-Identifier: Apache-2.0
// What the worker keeps of a graph and of a node. Changed on the issue thread only.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace farcall::server {

// A graph names its nodes, so that no name outlives it.
struct GraphState {
  CUgraph native = nullptr;
  bool inner = false;  // of a child graph node or a conditional's body: goes with its node
  bool capturing = false;
  std::unordered_map<CUgraphNode, uint64_t> names;
  std::vector<CUgraphNode> listed;  // those without a name, as the client was told of them last
};

struct GraphNodeState {
  uint64_t graph = 0;
  std::vector<uint64_t> inner;  // graphs that go with the node
};

}  // namespace farcall::server
