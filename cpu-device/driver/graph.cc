// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/graph.h"

#include <algorithm>
#include <unordered_map>

#include "cpu-device/driver/context.h"
#include "cpu-device/driver/event.h"
#include "cpu-device/driver/stream.h"

namespace farcall::cpu_device {

Registry<GraphNode>& GraphNodes() {
  static auto* nodes = new Registry<GraphNode>;
  return *nodes;
}

bool UserObject::Release(unsigned count) {
  unsigned held = references_.load();
  do {
    if (held < count) return false;
  } while (!references_.compare_exchange_weak(held, held - count));
  if (held == count) destroy_(pointer_);
  return true;
}

Graph::~Graph() {
  for (const auto& [object, count] : user_objects) object->Release(count);
  for (const auto& node : nodes_) GraphNodes().Take(node.get());
}

GraphNode& Graph::Add(CUgraphNodeType type, std::vector<GraphNode*> dependencies) {
  auto node = std::make_shared<GraphNode>(*this, type);
  node->dependencies = std::move(dependencies);
  node->id = next_id_++;
  nodes_.push_back(node);
  GraphNodes().Add(node);
  return *node;
}

void Graph::Remove(GraphNode& gone) {
  for (const auto& node : nodes_) std::erase(node->dependencies, &gone);
  const std::shared_ptr<GraphNode> last = GraphNodes().Take(&gone);
  std::erase_if(nodes_, [&](const auto& node) { return node.get() == &gone; });
}

bool Graph::Connect(GraphNode& from, GraphNode& to) {
  if (std::find(to.dependencies.begin(), to.dependencies.end(), &from) != to.dependencies.end())
    return false;
  to.dependencies.push_back(&from);
  if (!Order().empty()) return true;
  to.dependencies.pop_back();
  return false;
}

bool Graph::Disconnect(GraphNode& from, GraphNode& to) {
  return std::erase(to.dependencies, &from) != 0;
}

std::vector<GraphNode*> Graph::Dependents(const GraphNode& node) const {
  std::vector<GraphNode*> dependents;
  for (const auto& other : nodes_) {
    const auto& list = other->dependencies;
    if (std::find(list.begin(), list.end(), &node) != list.end()) dependents.push_back(other.get());
  }
  return dependents;
}

std::shared_ptr<Graph> Graph::Clone() const {
  auto copy = std::make_shared<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (GraphNode* node : Order()) {
    std::vector<GraphNode*> dependencies;
    for (GraphNode* dependency : node->dependencies) dependencies.push_back(twin[dependency]);
    GraphNode& made = copy->Add(node->type, std::move(dependencies));
    made.op = node->op;
    made.event = node->event;
    made.child = node->child == nullptr ? nullptr : node->child->Clone();
    made.id = node->id;
    twin[node] = &made;
  }
  copy->next_id_ = next_id_;
  copy->user_objects = user_objects;
  for (const auto& [object, count] : user_objects) object->Retain(count);
  return copy;
}

std::vector<GraphNode*> Graph::Order() const {
  std::vector<GraphNode*> order;
  std::unordered_map<const GraphNode*, size_t> waiting;
  std::unordered_map<const GraphNode*, std::vector<GraphNode*>> next;
  for (const auto& node : nodes_) {
    waiting[node.get()] = node->dependencies.size();
    for (const GraphNode* dependency : node->dependencies) next[dependency].push_back(node.get());
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (GraphNode* node : next[order[i]]) {
      if (--waiting[node] == 0) order.push_back(node);
    }
  }
  if (order.size() != nodes_.size()) order.clear();
  return order;
}

bool GraphExec::Append(const Graph& graph, bool top) {
  const std::vector<GraphNode*> order = graph.Order();
  if (order.size() != graph.nodes().size()) return false;
  for (const GraphNode* node : order) {
    if (node->child != nullptr) {
      if (!Append(*node->child, false)) return false;
      continue;
    }
    // Nodes of child graphs cannot be named by their id.
    steps_.push_back(
        {top ? node->id : 0, node->type, std::make_shared<const Op>(node->op), node->event, true});
  }
  return true;
}

CUresult GraphExec::Prepare() {
  std::lock_guard lock(mutex_);
  steps_.clear();
  return Append(*graph_, true) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult GraphExec::Launch(Stream& stream) {
  std::vector<Step> steps;
  {
    std::lock_guard lock(mutex_);
    steps = steps_;
  }
  // Events are of the host's side of a stream, so they split the run into pieces; the rest is one
  // piece of work.
  std::vector<std::shared_ptr<const Op>> piece;
  const auto flush = [&]() -> CUresult {
    if (piece.empty()) return CUDA_SUCCESS;
    auto work = [ops = std::move(piece)] {
      for (const auto& op : ops) {
        if (const CUresult result = Execute(*op)) return result;
      }
      return CUDA_SUCCESS;
    };
    piece.clear();
    return stream.Submit(std::move(work), How::kQueue);
  };
  for (const Step& step : steps) {
    if (!step.enabled) continue;
    if (step.event.event == nullptr) {
      piece.push_back(step.op);
      continue;
    }
    if (const CUresult result = flush()) return result;
    const CUresult result = step.event.record ? step.event.event->Record(stream)
                                              : WaitForEvent(stream, *step.event.event);
    if (result != CUDA_SUCCESS) return result;
  }
  return flush();
}

CUresult GraphExec::SetOp(const GraphNode& like, Op op) {
  std::lock_guard lock(mutex_);
  for (Step& step : steps_) {
    if (step.id != like.id || step.type != like.type) continue;
    step.op = std::make_shared<const Op>(std::move(op));
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult GraphExec::SetEnabled(const GraphNode& like, bool enabled) {
  std::lock_guard lock(mutex_);
  for (Step& step : steps_) {
    if (step.id != like.id || step.type != like.type) continue;
    step.enabled = enabled;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult GraphExec::GetEnabled(const GraphNode& like, bool* enabled) const {
  std::lock_guard lock(mutex_);
  for (const Step& step : steps_) {
    if (step.id != like.id || step.type != like.type) continue;
    *enabled = step.enabled;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

bool GraphExec::Update(const Graph& graph) {
  GraphExec fresh(graph.Clone(), flags_);
  if (fresh.Prepare() != CUDA_SUCCESS) return false;
  std::lock_guard lock(mutex_);
  if (fresh.steps_.size() != steps_.size()) return false;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (fresh.steps_[i].type != steps_[i].type) return false;
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].op = fresh.steps_[i].op;
    steps_[i].event = fresh.steps_[i].event;
  }
  return true;
}

}  // namespace farcall::cpu_device
