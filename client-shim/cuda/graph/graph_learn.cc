// SPDX-License-Identifier: Apache-2.0
// What a capture or a clone made, asked of the server: one question for all nodes and edges, one
// for what a node does when somebody wants to know that.
#include <algorithm>

#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/state/graph_model.h"

namespace farcall::client {

namespace {

struct Listed {
  uint64_t name = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
};
struct ListedEdge {
  uint64_t from = 0, to = 0, data = 0;
};
struct Listing {
  std::vector<Listed> nodes;
  std::vector<ListedEdge> edges, frontier;
};

CUresult Ask(const Graph& graph, uint64_t stream, Listing* listing) {
  Builder body;
  body.Put<uint64_t>(graph.handle);
  body.Put<uint64_t>(stream);
  body.Put<uint64_t>(0);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuGraphGetNodes, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader in = reply.outputs();
  size_t count = in.GetCount(12);
  for (size_t i = 0; i < count; ++i) {
    Listed node;
    node.name = in.Get<uint64_t>();
    node.type = static_cast<CUgraphNodeType>(in.Get<uint32_t>());
    listing->nodes.push_back(node);
  }
  count = in.GetCount(24);
  for (size_t i = 0; i < count; ++i) {
    ListedEdge edge;
    edge.from = in.Get<uint64_t>();
    edge.to = in.Get<uint64_t>();
    edge.data = in.Get<uint64_t>();
    listing->edges.push_back(edge);
  }
  count = in.GetCount(16);
  for (size_t i = 0; i < count; ++i) {
    ListedEdge edge;
    edge.from = in.Get<uint64_t>();
    edge.data = in.Get<uint64_t>();
    listing->frontier.push_back(edge);
  }
  return in.Done() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// Names for what the server listed without one, in its order. The model takes its order from there.
CUresult NameNodes(Graph* graph, const Listing& listing, std::vector<GraphNode*>* places) {
  Builder body;
  std::vector<uint64_t> names;
  for (const Listed& listed : listing.nodes) {
    GraphNode* node = listed.name == 0 ? nullptr : FindNode(AsHandle<CUgraphNode>(listed.name));
    if (listed.name != 0 && (node == nullptr || node->graph != graph)) return CUDA_ERROR_UNKNOWN;
    if (node == nullptr) {
      CUresult error = CUDA_SUCCESS;
      uint64_t name = NewHandle(HandleKind::kGraphNode, &error);
      if (error != CUDA_SUCCESS) return error;
      names.push_back(name);
      auto work = std::make_shared<GraphWork>();
      work->given.type = listed.type;
      work->known = listed.type == CU_GRAPH_NODE_TYPE_EMPTY;
      node = KeepNode(graph, name, std::move(work));
    }
    places->push_back(node);
  }
  if (names.empty()) return CUDA_SUCCESS;
  body.Put<uint64_t>(graph->handle);
  body.Put<uint64_t>(0);
  body.Put<uint64_t>(names.size());
  for (uint64_t name : names) body.Put<uint64_t>(name);
  return PostGraph(CallId::cuGraphGetNodes, body);
}

GraphNode* At(const std::vector<GraphNode*>& places, uint64_t place) {
  return place < places.size() ? places[place] : nullptr;
}

}  // namespace

CUresult Learn(Graph* graph, uint64_t stream, Frontier* frontier, std::vector<GraphNode*>* places) {
  Listing listing;
  std::vector<GraphNode*> nodes;
  CUresult status = Ask(*graph, stream, &listing);
  if (status == CUDA_SUCCESS) status = NameNodes(graph, listing, &nodes);
  if (status != CUDA_SUCCESS) return status;
  std::unordered_map<const GraphNode*, size_t> place;
  for (GraphNode* node : nodes) {
    place.emplace(node, place.size());
    node->after.clear();
  }
  std::sort(graph->nodes.begin(), graph->nodes.end(),
            [&](const auto& a, const auto& b) { return place[a.get()] < place[b.get()]; });
  for (const ListedEdge& edge : listing.edges) {
    GraphNode *from = At(nodes, edge.from), *to = At(nodes, edge.to);
    if (from == nullptr || to == nullptr) return CUDA_ERROR_UNKNOWN;
    to->after.push_back({from, edge.data});
  }
  for (const ListedEdge& edge : listing.frontier) {
    GraphNode* node = At(nodes, edge.from);
    if (node == nullptr) return CUDA_ERROR_UNKNOWN;
    if (frontier == nullptr) continue;
    frontier->nodes.push_back(node);
    frontier->data.push_back(edge.data);
  }
  if (places != nullptr) *places = std::move(nodes);
  // While it is captured it grows.
  graph->known = !graph->capturing;
  return CUDA_SUCCESS;
}

CUresult LearnWork(GraphNode* node) {
  if (node->work->known) return CUDA_SUCCESS;
  FixedBody<8> body;
  body.Put<uint64_t>(node->handle);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuGraphKernelNodeGetParams_v2, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader in = reply.outputs();
  return TakeWork(&in, node->work.get());
}

}  // namespace farcall::client
