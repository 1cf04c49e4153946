// SPDX-License-Identifier: Apache-2.0
// Which handles name a graph and its nodes, and what goes with a name.
#include "server/calls/graph/graph.h"
#include "server/state/session.h"

namespace farcall::server {

GraphState* FindGraph(ServeCall& call, uint64_t wire) {
  return static_cast<GraphState*>(call.ResolveExtra(HandleKind::kGraph, wire));
}

void NameNode(ServeCall& call, uint64_t graph_wire, GraphState* graph, uint64_t wire,
              CUgraphNode native, std::vector<uint64_t> inner) {
  HandleParts parts = SplitHandle(wire);
  graph->names[native] = wire;
  call.session.table(HandleKind::kGraphNode)
      .Set(parts.index, parts.generation, HandleTable::State::kLive, native,
           new GraphNodeState{graph_wire, std::move(inner)});
}

void NameInnerGraph(ServeCall& call, uint64_t wire, CUgraph native) {
  HandleParts parts = SplitHandle(wire);
  auto* graph = new GraphState;
  graph->native = native;
  graph->inner = true;
  call.session.table(HandleKind::kGraph)
      .Set(parts.index, parts.generation, HandleTable::State::kLive, native, graph);
}

namespace {

// Kills the handle; what was kept beside it is the caller's. Null if it is not alive.
void* TakeExtra(Session& session, HandleKind kind, uint64_t wire) {
  HandleParts parts = SplitHandle(wire);
  HandleTable& table = session.table(kind);
  HandleTable::Found found = table.Find(parts.index, parts.generation);
  if (found.state != HandleTable::State::kLive || !found.generation_matches) return nullptr;
  table.Kill(parts.index, parts.generation);
  return found.extra;
}

}  // namespace

void ForgetNode(Session& session, uint64_t wire) {
  auto* node = static_cast<GraphNodeState*>(TakeExtra(session, HandleKind::kGraphNode, wire));
  if (node == nullptr) return;
  for (uint64_t inner : node->inner) ForgetGraph(session, inner);
  delete node;
}

void ForgetGraph(Session& session, uint64_t wire) {
  auto* graph = static_cast<GraphState*>(TakeExtra(session, HandleKind::kGraph, wire));
  if (graph == nullptr) return;
  for (const auto& [native, name] : graph->names) ForgetNode(session, name);
  delete graph;
}

uint64_t NameOf(Session& session, HandleKind kind, const void* native) {
  uint64_t name = 0;
  session.table(kind).ForEachLive([&](uint32_t index, uint16_t generation, void* object, void*) {
    if (object == native) name = MakeHandle(kind, index, generation);
  });
  return name;
}

}  // namespace farcall::server
