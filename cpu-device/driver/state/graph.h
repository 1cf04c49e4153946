// SPDX-License-Identifier: Apache-2.0
// Graphs: made node by node or by capturing streams. graph_exec.h: frozen and launched.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/registry.h"
#include "cpu-device/driver/state/op.h"

namespace farcall::cpu_device {

class Context;
class Event;
class Graph;
class GraphMemory;
class Stream;

// What an executable graph runs for an event record or wait node.
struct EventOp {
  std::shared_ptr<Event> event;
  bool record = false;
};

// Memory a graph's nodes use: its destructor runs when the last reference, a program's or a
// graph's, is gone.
class UserObject {
 public:
  UserObject(CUhostFn destroy, void* pointer, unsigned references)
      : destroy_(destroy), pointer_(pointer), references_(references) {}
  CUuserObject handle() { return reinterpret_cast<CUuserObject>(this); }
  void Retain(unsigned count) { references_ += count; }
  // false: fewer references than that.
  bool Release(unsigned count);

 private:
  const CUhostFn destroy_;
  void* const pointer_;
  std::atomic<unsigned> references_;
};

// References to user objects, given back when the last holder is gone.
class UserObjects {
 public:
  UserObjects() = default;
  UserObjects(const UserObjects&) = delete;
  ~UserObjects();
  // References of its own to what `other` holds.
  void Share(const UserObjects& other);
  void Take(const std::shared_ptr<UserObject>& object, unsigned count) { held_[object] += count; }
  // false: fewer are held. The references are the caller's now.
  bool Drop(const std::shared_ptr<UserObject>& object, unsigned count);

 private:
  std::map<std::shared_ptr<UserObject>, unsigned> held_;
};

// A value that kernels set and a conditional node looks at.
struct Conditional {
  CUgraphConditionalHandle handle() { return reinterpret_cast<CUgraphConditionalHandle>(this); }
  std::weak_ptr<Graph> graph;
  unsigned default_value = 0;
  bool assign_default = false;
  std::atomic<bool> has_node{false};
  std::atomic<unsigned> value{0};
};
Registry<Conditional>& Conditionals();
// What cudaGraphSetConditional does in a kernel. A wrong handle is ignored.
void SetConditional(uint64_t handle, uint32_t value);

struct ConditionalBody {
  std::shared_ptr<Conditional> condition;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::shared_ptr<Graph>> graphs;
  std::vector<CUgraph> handles;  // what the application is shown
};

class GraphNode {
 public:
  GraphNode(Graph& of, CUgraphNodeType kind) : graph(of), type(kind) {}
  CUgraphNode handle() { return reinterpret_cast<CUgraphNode>(this); }
  CUgraphEdgeData EdgeFrom(const GraphNode* dependency) const;

  Graph& graph;
  const CUgraphNodeType type;
  Op op;                                     // kernel, memcpy, memset, host, mem op and empty nodes
  EventOp event;                             // event nodes
  std::shared_ptr<Graph> child;              // child graph nodes: a copy
  std::shared_ptr<GraphMemory> memory;       // allocation and free nodes
  std::unique_ptr<ConditionalBody> body;     // conditional nodes
  std::optional<CUDA_MEMCPY3D> copy_params;  // as the application gave them
  std::map<int, CUlaunchAttributeValue> attributes;
  std::vector<GraphNode*> dependencies;
  std::map<const GraphNode*, CUgraphEdgeData> edge_data;  // of edges that are not plain
  std::vector<void*> param_pointers;  // what cuGraphKernelNodeGetParams hands out
  uint64_t id = 0;  // of all graphs' nodes, in order of creation; a clone keeps it
};

// Not safe from several threads at once, as CUDA's graphs are not; handles are.
class Graph {
 public:
  ~Graph();
  CUgraph handle() { return reinterpret_cast<CUgraph>(this); }

  GraphNode& Add(CUgraphNodeType type, std::vector<GraphNode*> dependencies);
  void Remove(GraphNode& node);
  // false: `to` already reaches `from`, or the edge exists.
  bool Connect(GraphNode& from, GraphNode& to);
  bool Disconnect(GraphNode& from, GraphNode& to);
  const std::vector<std::shared_ptr<GraphNode>>& nodes() const { return nodes_; }
  std::vector<GraphNode*> Dependents(const GraphNode& node) const;
  // A deep copy; nodes keep their ids.
  std::shared_ptr<Graph> Clone() const;
  // Nodes in an order that respects every edge; empty for a cycle.
  std::vector<GraphNode*> Order() const;
  // Takes over what the nodes of a graph of the same shape do.
  void CopyWork(const Graph& from);
  // It, or a graph inside it, has a node for which `accept` is true.
  template <typename Predicate>
  bool Any(Predicate accept) const;
  bool has_memory_nodes() const;
  bool has_conditionals() const;

  UserObjects user_objects;
  std::vector<std::shared_ptr<Conditional>> conditionals;
  bool embedded = false;  // a child's or a conditional's: not the application's to destroy
  bool body = false;      // of a conditional
  std::atomic<bool> has_exec{false};  // of a graph with memory nodes: one at a time

 private:
  std::vector<std::shared_ptr<GraphNode>> nodes_;
};

template <typename Predicate>
bool Graph::Any(Predicate accept) const {
  for (const auto& node : nodes_) {
    if (accept(*node)) return true;
    if (node->child != nullptr && node->child->Any(accept)) return true;
    if (node->body == nullptr) continue;
    for (const auto& graph : node->body->graphs)
      if (graph->Any(accept)) return true;
  }
  return false;
}

Registry<GraphNode>& GraphNodes();

bool IsPlain(const CUgraphEdgeData& data);
// Only a kernel offers more than its completion, and only another kernel takes it.
bool IsEdgeData(const CUgraphEdgeData& data, const GraphNode& from, const GraphNode& to);

// One capture: the streams in it, and for each the nodes its next one depends on.
class Capture : public std::enable_shared_from_this<Capture> {
 public:
  Capture(std::shared_ptr<Graph> graph, Stream& origin, CUstreamCaptureMode mode, bool owned);

  uint64_t id() const { return id_; }
  Graph& graph() { return *graph_; }
  const std::shared_ptr<Graph>& shared_graph() const { return graph_; }
  bool owned() const { return owned_; }  // false: cuStreamBeginCaptureToGraph
  Stream& origin() const { return origin_; }
  CUstreamCaptureMode mode() const { return mode_; }
  bool valid() const;
  void Invalidate();

  GraphNode* Append(Stream& stream, CUgraphNodeType type);
  std::vector<GraphNode*> Tips(Stream& stream);
  void Join(Stream& stream, const std::vector<GraphNode*>& nodes);
  void SetTips(Stream& stream, std::vector<GraphNode*> nodes);
  // A forked stream goes; what it captured stays, and has to be joined as before.
  void Leave(Stream& stream);
  // Takes all streams out of the capture. `unjoined`: a forked stream has work the origin does not
  // depend on.
  void Finish(bool* unjoined);

 private:
  const std::shared_ptr<Graph> graph_;
  Stream& origin_;
  const CUstreamCaptureMode mode_;
  const bool owned_;
  const uint64_t id_;
  mutable std::mutex mutex_;
  bool valid_ = true;
  std::map<Stream*, std::vector<GraphNode*>> tips_;
  std::vector<GraphNode*> left_tips_;  // of streams that are gone
};

// What calls do in a capturing stream.
CUresult CaptureOp(Stream& stream, Op op);
CUresult CaptureGraph(Stream& stream, const Graph& graph);
CUresult CaptureEvent(Stream& stream, std::shared_ptr<Event> event, bool record);
CUresult CaptureRecord(Stream& stream, Event& event);
CUresult WaitOrCapture(Stream& stream, Event& event);
// A call that cannot be captured ends the capture: STREAM_CAPTURE_UNSUPPORTED (or the error of a
// capture that is already broken).
CUresult RefuseWhileCapturing(Stream& stream);
void AbandonCapture(Stream& stream);

}  // namespace farcall::cpu_device
