// SPDX-License-Identifier: Apache-2.0
// What the calls of graphs share: edges, names of nodes, node parameters on the wire.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "server/state/objects/graph_state.h"
#include "server/state/serve.h"

namespace farcall::server {

struct GraphEdges {
  std::vector<CUgraphNode> from, to;  // `to` only where both ends are named
  std::vector<CUgraphEdgeData> data;
};

// {count, {u64 node, u64 edge data}}, or with both ends {count, {u64 from, u64 to, u64 edge data}}.
GraphEdges DecodeEdges(ServeCall& call, bool both_ends);
// No edge carries anything: then a driver that knows plain edges alone will do.
bool Plain(const std::vector<CUgraphEdgeData>& data);

// ---- graph_names.cc
GraphState* FindGraph(ServeCall& call, uint64_t wire);
void NameNode(ServeCall& call, uint64_t graph_wire, GraphState* graph, uint64_t wire,
              CUgraphNode native, std::vector<uint64_t> inner = {});
void NameInnerGraph(ServeCall& call, uint64_t wire, CUgraph native);
// The node's name, and the graphs that go with it.
void ForgetNode(Session& session, uint64_t wire);
// Everything named in the graph is over, then the graph's own name.
void ForgetGraph(Session& session, uint64_t wire);
// The wire name of a native object, 0 if it has none.
uint64_t NameOf(Session& session, HandleKind kind, const void* native);

// ---- graph_capture.cc
// What a capturing stream's next node stands on.
CUresult Frontier(ServeCall& call, CUstream stream, CUgraph* graph, GraphEdges* edges);
CUresult MoveFrontier(ServeCall& call, CUstream stream, const GraphEdges& edges, unsigned flags);

// ---- graph_params.cc: a node's parameters on the wire
struct NodeParams {
  CUgraphNodeParams native{};
  std::vector<uint64_t> new_graphs;  // a conditional's bodies, named by the client
  std::vector<CUstreamBatchMemOpParams> mem_ops;
  std::span<const std::byte> kernel_params;
  uint64_t kernel = 0;  // its wire name
  uint64_t host_function = 0;
  // What the driver is given points into this object.
  size_t kernel_param_bytes = 0;
  void* extra[5] = {};
};
// Decodes; ResolveParams, after Done(), fills `native`. INVALID_VALUE etc. are `call.result`.
bool DecodeParams(ServeCall& call, NodeParams* params);
void ResolveParams(ServeCall& call, NodeParams* params);
// A node's parameters as the driver tells them.
void EncodeParams(ServeCall& call, CUgraphNode node);

// ---- host_function.cc
// What a host node calls, and with what. It lives as long as the session.
CUDA_HOST_NODE_PARAMS_v2 GraphHostFunction(Session& session, uint64_t function);
// 0: none of ours.
uint64_t GraphHostFunctionOf(CUhostFn function, void* data);

}  // namespace farcall::server
