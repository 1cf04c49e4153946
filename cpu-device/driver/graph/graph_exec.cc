// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/graph/graph_exec.h"

#include <algorithm>
#include <unordered_map>

#include "cpu-device/driver/graph/graph_memory.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

// Every node of the graph and of the graphs inside it.
template <typename Visit>
void ForEachNode(const Graph& graph, Visit visit) {
  graph.Any([&](const GraphNode& node) {
    visit(node);
    return false;
  });
}

}  // namespace

GraphExec::GraphExec(const std::shared_ptr<Graph>& source, unsigned long long flags)
    : source_(source),
      graph_(source->Clone()),
      flags_(flags),
      users_(std::make_shared<UserObjects>()) {
  users_->Share(source->user_objects);
}

GraphExec::~GraphExec() {
  const std::shared_ptr<Graph> source = source_.lock();
  if (source != nullptr) source->has_exec = false;
}

bool GraphExec::Append(const Graph& graph, bool top, Steps* steps) const {
  const std::vector<GraphNode*> order = graph.Order();
  if (order.size() != graph.nodes().size()) return false;
  for (const GraphNode* node : order) {
    // Nodes of child graphs cannot be named, so not be disabled.
    if (top && disabled_.count(node->id) != 0) continue;
    if (node->child != nullptr) {
      if (!Append(*node->child, false, steps)) return false;
      continue;
    }
    Step step{std::make_shared<const Op>(node->op), node->event, nullptr, {}, nullptr};
    if (node->body != nullptr) {
      auto bodies = std::make_shared<std::vector<Steps>>();
      for (const auto& body : node->body->graphs)
        if (!Append(*body, false, &bodies->emplace_back())) return false;
      step.condition = node->body->condition;
      step.condition_type = node->body->type;
      step.bodies = std::move(bodies);
    }
    steps->push_back(std::move(step));
  }
  return true;
}

CUresult GraphExec::Refresh() {
  if (!stale_) return CUDA_SUCCESS;
  auto steps = std::make_shared<Steps>();
  if (!Append(*graph_, true, steps.get())) return CUDA_ERROR_INVALID_VALUE;
  steps_ = std::move(steps);
  stale_ = false;
  return CUDA_SUCCESS;
}

CUresult GraphExec::Prepare() {
  for (const auto& condition : graph_->conditionals)
    if (!condition->has_node) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  return Refresh();
}

CUresult GraphExec::RunConditional(const Step& step, int device) {
  const auto value = [&] { return step.condition->value.load(); };
  const auto& bodies = *step.bodies;
  switch (step.condition_type) {
    case CU_GRAPH_COND_TYPE_WHILE:
      while (value() != 0)
        if (const CUresult result = Run(bodies[0], device)) return result;
      return CUDA_SUCCESS;
    case CU_GRAPH_COND_TYPE_IF:
      if (value() != 0) return Run(bodies[0], device);
      return bodies.size() > 1 ? Run(bodies[1], device) : CUDA_SUCCESS;
    default:
      return value() < bodies.size() ? Run(bodies[value()], device) : CUDA_SUCCESS;
  }
}

CUresult GraphExec::Run(const Steps& steps, int device) {
  for (const Step& step : steps) {
    const CUresult result =
        step.bodies != nullptr ? RunConditional(step, device) : Execute(*step.op, device);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// Under the lock.
CUresult GraphExec::AllocateForLaunch() {
  const bool reuse = (flags_ & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  bool unfreed = false;
  ForEachNode(*graph_, [&](const GraphNode& node) {
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node.memory->live()) unfreed = true;
  });
  if (unfreed && !reuse) return CUDA_ERROR_INVALID_VALUE;
  ForEachNode(*graph_, [](const GraphNode& node) {
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) node.memory->Use(node.memory);
  });
  ForEachNode(*graph_, [](const GraphNode& node) {
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_FREE) node.memory->Unuse();
  });
  return CUDA_SUCCESS;
}

CUresult GraphExec::Launch(Stream& stream) {
  std::shared_ptr<const Steps> steps;
  std::shared_ptr<UserObjects> users;
  {
    std::lock_guard lock(mutex_);
    if (const CUresult result = Refresh()) return result;
    if (const CUresult result = AllocateForLaunch()) return result;
    steps = steps_;
    users = users_;
  }
  // Events are of the host's side of a stream, so they split the run into pieces; the rest is one
  // piece of work, which keeps what the graph holds.
  const int device = stream.context().device().ordinal;
  Steps piece;
  bool first = true;
  const auto flush = [&]() -> CUresult {
    if (piece.empty() && !first) return CUDA_SUCCESS;
    auto work = [ops = std::move(piece), users, graph = graph_, first, device] {
      for (const auto& condition : graph->conditionals)
        if (first && condition->assign_default) condition->value = condition->default_value;
      return Run(ops, device);
    };
    piece.clear();
    first = false;
    return stream.Submit(std::move(work), How::kQueue);
  };
  for (const Step& step : *steps) {
    if (step.event.event == nullptr) {
      piece.push_back(step);
      continue;
    }
    if (const CUresult result = flush()) return result;
    const CUresult result = step.event.record ? step.event.event->Record(stream)
                                              : WaitForEvent(stream, *step.event.event);
    if (result != CUDA_SUCCESS) return result;
  }
  return flush();
}

CUresult GraphExec::LaunchInto(Stream& stream) const {
  std::lock_guard lock(mutex_);
  if (graph_->has_memory_nodes() || graph_->has_conditionals())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return CaptureGraph(stream, *graph_);
}

GraphNode* GraphExec::Twin(const GraphNode& like, CUgraphNodeType type) {
  const std::shared_ptr<Graph> source = source_.lock();
  if (source.get() != &like.graph || like.type != type) return nullptr;
  std::lock_guard lock(mutex_);
  for (const auto& node : graph_->nodes()) {
    if (node->id != like.id || node->type != type) continue;
    stale_ = true;
    return node.get();
  }
  return nullptr;
}

CUresult GraphExec::SetEnabled(const GraphNode& like, bool enabled) {
  if (like.type != CU_GRAPH_NODE_TYPE_KERNEL && like.type != CU_GRAPH_NODE_TYPE_MEMSET &&
      like.type != CU_GRAPH_NODE_TYPE_MEMCPY)
    return CUDA_ERROR_INVALID_VALUE;
  if (Twin(like, like.type) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  if (enabled)
    disabled_.erase(like.id);
  else
    disabled_.insert(like.id);
  return CUDA_SUCCESS;
}

CUresult GraphExec::GetEnabled(const GraphNode& like, bool* enabled) const {
  if (const_cast<GraphExec*>(this)->Twin(like, like.type) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  *enabled = disabled_.count(like.id) == 0;
  return CUDA_SUCCESS;
}

// Nodes are paired by their order of creation.
bool GraphExec::SameShape(const Graph& old, const Graph& graph, CUgraphExecUpdateResultInfo* info) {
  const auto differ = [&](CUgraphExecUpdateResult result, GraphNode* node, GraphNode* from) {
    *info = {result, node == nullptr ? nullptr : node->handle(),
             from == nullptr ? nullptr : from->handle()};
    return false;
  };
  const auto &before = old.nodes(), &after = graph.nodes();
  constexpr auto kTopology = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (before.size() != after.size()) return differ(kTopology, nullptr, nullptr);
  std::unordered_map<const GraphNode*, const GraphNode*> pair;
  for (size_t i = 0; i < after.size(); ++i) pair[after[i].get()] = before[i].get();
  for (size_t i = 0; i < after.size(); ++i) {
    GraphNode& node = *after[i];
    const auto& wanted = before[i]->dependencies;
    if (node.dependencies.size() != wanted.size()) return differ(kTopology, &node, nullptr);
    for (GraphNode* from : node.dependencies) {
      const auto known = pair.find(from);
      if (known == pair.end() ||
          std::find(wanted.begin(), wanted.end(), known->second) == wanted.end())
        return differ(kTopology, &node, from);
    }
    if (node.type != before[i]->type)
      return differ(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, &node, nullptr);
    if (node.memory != before[i]->memory)
      return differ(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, &node, nullptr);
    if (node.child != nullptr && !SameShape(*before[i]->child, *node.child, info)) return false;
    if (node.body == nullptr) continue;
    const ConditionalBody &one = *before[i]->body, &other = *node.body;
    if (one.type != other.type || one.graphs.size() != other.graphs.size())
      return differ(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, &node, nullptr);
    for (size_t k = 0; k < one.graphs.size(); ++k)
      if (!SameShape(*one.graphs[k], *other.graphs[k], info)) return false;
  }
  return true;
}

bool GraphExec::Update(const Graph& graph, CUgraphExecUpdateResultInfo* info) {
  auto users = std::make_shared<UserObjects>();
  std::shared_ptr<UserObjects> before;  // given back after the lock, and after running launches
  std::lock_guard lock(mutex_);
  if (!SameShape(*graph_, graph, info)) return false;
  users->Share(graph.user_objects);
  before = std::exchange(users_, users);
  graph_->CopyWork(graph);
  graph_->conditionals = graph.conditionals;
  stale_ = true;
  *info = {};
  return true;
}

}  // namespace farcall::cpu_device
