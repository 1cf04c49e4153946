// SPDX-License-Identifier: Apache-2.0
// Graphs: made node by node or by capturing streams, frozen into an executable, launched as one
// piece of a stream's work.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cpu-device/driver/api.h"
#include "cpu-device/driver/op.h"
#include "cpu-device/driver/registry.h"

namespace farcall::cpu_device {

class Context;
class Event;
class Graph;

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

class GraphNode {
 public:
  GraphNode(Graph& graph, CUgraphNodeType type) : graph(graph), type(type) {}
  CUgraphNode handle() { return reinterpret_cast<CUgraphNode>(this); }

  Graph& graph;
  const CUgraphNodeType type;
  Op op;                         // kernel, memcpy, memset, host and empty nodes
  EventOp event;                 // event nodes
  std::shared_ptr<Graph> child;  // child graph nodes: a copy
  std::vector<GraphNode*> dependencies;
  std::vector<void*> param_pointers;  // what cuGraphKernelNodeGetParams hands out
  uint64_t id = 0;                    // creation order; a clone keeps it
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

  // User objects this graph keeps alive, with how many references.
  std::map<std::shared_ptr<UserObject>, unsigned> user_objects;

 private:
  std::vector<std::shared_ptr<GraphNode>> nodes_;
  uint64_t next_id_ = 1;
};

Registry<GraphNode>& GraphNodes();

// A frozen graph: its own copy of the nodes.
class GraphExec {
 public:
  explicit GraphExec(std::shared_ptr<Graph> graph, unsigned long long flags)
      : graph_(std::move(graph)), flags_(flags) {}
  CUgraphExec handle() { return reinterpret_cast<CUgraphExec>(this); }
  unsigned long long flags() const { return flags_; }

  CUresult Prepare();
  CUresult Launch(Stream& stream);
  // Replaces what the node `like` (of the graph this was made from) does; INVALID_VALUE if there is
  // no such node.
  CUresult SetOp(const GraphNode& like, Op op);
  CUresult SetEnabled(const GraphNode& like, bool enabled);
  CUresult GetEnabled(const GraphNode& like, bool* enabled) const;
  // Takes over the parameters of a graph of the same shape; false if the shape differs.
  bool Update(const Graph& graph);

 private:
  struct Step {
    uint64_t id;
    CUgraphNodeType type;
    std::shared_ptr<const Op> op;
    EventOp event;
    bool enabled;
  };
  bool Append(const Graph& graph, bool top);

  mutable std::mutex mutex_;
  const std::shared_ptr<Graph> graph_;
  const unsigned long long flags_;
  std::vector<Step> steps_;
};

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
};

// What calls do in a capturing stream.
CUresult CaptureOp(Stream& stream, Op op);
CUresult CaptureRecord(Stream& stream, Event& event);
CUresult WaitOrCapture(Stream& stream, Event& event);
// A call that cannot be captured ends the capture: STREAM_CAPTURE_UNSUPPORTED (or the error of a
// capture that is already broken).
CUresult RefuseWhileCapturing(Stream& stream);
void AbandonCapture(Stream& stream);

}  // namespace farcall::cpu_device
