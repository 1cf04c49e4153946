// SPDX-License-Identifier: Apache-2.0
// A frozen graph: its own copy of the nodes, launched as one piece of a stream's work.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cpu-device/driver/state/graph.h"

namespace farcall::cpu_device {

class GraphExec {
 public:
  GraphExec(const std::shared_ptr<Graph>& source, unsigned long long flags);
  ~GraphExec();
  CUgraphExec handle() { return reinterpret_cast<CUgraphExec>(this); }
  unsigned long long flags() const { return flags_; }

  // INVALID_VALUE: the graph, or one inside it, cannot be ordered, or a conditional value has no
  // node.
  CUresult Prepare();
  //   Errors  INVALID_VALUE (an allocation of the launch before is still in use)
  CUresult Launch(Stream& stream);
  // The launch as a node of a capture.
  CUresult LaunchInto(Stream& stream) const;
  // The own copy of a node of the graph that this was made from; nullptr if it is none of it.
  // Changes of it take effect with the next launch.
  GraphNode* Twin(const GraphNode& like, CUgraphNodeType type);
  CUresult SetEnabled(const GraphNode& like, bool enabled);
  CUresult GetEnabled(const GraphNode& like, bool* enabled) const;
  // Takes over the parameters of a graph of the same shape; else says where it differs.
  bool Update(const Graph& graph, CUgraphExecUpdateResultInfo* info);
  // The same for the child graph of a node.
  static bool SameShape(const Graph& old, const Graph& graph, CUgraphExecUpdateResultInfo* info);

 private:
  struct Step;
  using Steps = std::vector<Step>;
  struct Step {
    std::shared_ptr<const Op> op;
    EventOp event;
    // A conditional node's: the value, and the steps of each body.
    std::shared_ptr<Conditional> condition;
    CUgraphConditionalNodeType condition_type = CU_GRAPH_COND_TYPE_IF;
    std::shared_ptr<const std::vector<Steps>> bodies;
  };
  static CUresult Run(const Steps& steps, int device);
  static CUresult RunConditional(const Step& step, int device);
  bool Append(const Graph& graph, bool top, Steps* steps) const;
  CUresult AllocateForLaunch();
  CUresult Refresh();

  mutable std::mutex mutex_;
  const std::weak_ptr<Graph> source_;
  const std::shared_ptr<Graph> graph_;
  const unsigned long long flags_;
  std::shared_ptr<UserObjects> users_;
  std::set<uint64_t> disabled_;
  bool stale_ = true;
  std::shared_ptr<const Steps> steps_;
};

}  // namespace farcall::cpu_device
