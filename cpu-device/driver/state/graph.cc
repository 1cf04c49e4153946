// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/graph.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"

namespace farcall::cpu_device {

Registry<GraphNode>& GraphNodes() {
  static auto* nodes = new Registry<GraphNode>;
  return *nodes;
}

Registry<Conditional>& Conditionals() {
  static auto* all = new Registry<Conditional>;
  return *all;
}

void SetConditional(uint64_t handle, uint32_t value) {
  const auto found = Conditionals().Find(reinterpret_cast<const void*>(handle));
  if (found != nullptr) found->value.store(value);
}

bool UserObject::Release(unsigned count) {
  unsigned held = references_.load();
  do {
    if (held < count) return false;
  } while (!references_.compare_exchange_weak(held, held - count));
  if (held != count) return true;
  TheDriver().user_objects.Take(this);
  destroy_(pointer_);
  return true;
}

void UserObjects::Share(const UserObjects& other) {
  for (const auto& [object, count] : other.held_) {
    object->Retain(count);
    held_[object] += count;
  }
}

UserObjects::~UserObjects() {
  for (const auto& [object, count] : held_) object->Release(count);
}

bool UserObjects::Drop(const std::shared_ptr<UserObject>& object, unsigned count) {
  const auto found = held_.find(object);
  if (found == held_.end() || found->second < count) return false;
  if ((found->second -= count) == 0) held_.erase(found);
  return true;
}

CUgraphEdgeData GraphNode::EdgeFrom(const GraphNode* dependency) const {
  const auto found = edge_data.find(dependency);
  return found == edge_data.end() ? CUgraphEdgeData{} : found->second;
}

bool IsPlain(const CUgraphEdgeData& data) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&data);
  return std::all_of(bytes, bytes + sizeof(data), [](unsigned char byte) { return byte == 0; });
}

bool IsEdgeData(const CUgraphEdgeData& data, const GraphNode& from, const GraphNode& to) {
  if (IsPlain(data)) return true;
  CUgraphEdgeData rest = data;
  rest.from_port = rest.type = 0;
  const bool programmatic = data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  if (!IsPlain(rest) || data.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
      data.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER)
    return false;
  const bool kernels =
      from.type == CU_GRAPH_NODE_TYPE_KERNEL && to.type == CU_GRAPH_NODE_TYPE_KERNEL;
  return kernels && (!programmatic || data.from_port != CU_GRAPH_KERNEL_NODE_PORT_DEFAULT);
}

namespace {
// Graphs inside a node are named by handles, and go with it.
void ForgetInner(const GraphNode& node) {
  if (node.child != nullptr) TheDriver().graphs.Take(node.child.get());
  if (node.body == nullptr) return;
  for (const auto& graph : node.body->graphs) TheDriver().graphs.Take(graph.get());
}
}  // namespace

Graph::~Graph() {
  for (const auto& node : nodes_) {
    ForgetInner(*node);
    GraphNodes().Take(node.get());
  }
  for (const auto& condition : conditionals)
    if (condition.use_count() == 2) Conditionals().Take(condition.get());
}

GraphNode& Graph::Add(CUgraphNodeType type, std::vector<GraphNode*> dependencies) {
  auto node = std::make_shared<GraphNode>(*this, type);
  node->dependencies = std::move(dependencies);
  static std::atomic<uint64_t> next_id{1};
  node->id = next_id++;
  nodes_.push_back(node);
  GraphNodes().Add(node);
  return *node;
}

void Graph::Remove(GraphNode& gone) {
  for (const auto& node : nodes_) {
    std::erase(node->dependencies, &gone);
    node->edge_data.erase(&gone);
  }
  ForgetInner(gone);
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
  to.edge_data.erase(&from);
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

namespace {
void CopyWorkOf(const GraphNode& from, GraphNode* to) {
  to->op = from.op;
  to->event = from.event;
  to->memory = from.memory;
  to->copy_params = from.copy_params;
  to->attributes = from.attributes;
}
}  // namespace

std::shared_ptr<Graph> Graph::Clone() const {
  auto copy = std::make_shared<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (const auto& node : nodes_) {
    GraphNode& made = copy->Add(node->type, {});
    CopyWorkOf(*node, &made);
    made.child = node->child == nullptr ? nullptr : node->child->Clone();
    if (node->body != nullptr) {
      made.body = std::make_unique<ConditionalBody>();
      made.body->condition = node->body->condition;
      made.body->type = node->body->type;
      for (const auto& graph : node->body->graphs) made.body->graphs.push_back(graph->Clone());
    }
    made.id = node->id;
    twin[node.get()] = &made;
  }
  for (const auto& node : nodes_) {
    for (const GraphNode* dependency : node->dependencies)
      twin[node.get()]->dependencies.push_back(twin[dependency]);
    for (const auto& [dependency, data] : node->edge_data)
      twin[node.get()]->edge_data[twin[dependency]] = data;
  }
  copy->conditionals = conditionals;
  copy->user_objects.Share(user_objects);
  return copy;
}

void Graph::CopyWork(const Graph& from) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const GraphNode& source = *from.nodes_[i];
    CopyWorkOf(source, nodes_[i].get());
    if (source.child != nullptr) nodes_[i]->child->CopyWork(*source.child);
    if (source.body == nullptr) continue;
    nodes_[i]->body->condition = source.body->condition;
    for (size_t k = 0; k < source.body->graphs.size(); ++k)
      nodes_[i]->body->graphs[k]->CopyWork(*source.body->graphs[k]);
  }
}

bool Graph::has_memory_nodes() const {
  return Any([](const GraphNode& node) { return node.memory != nullptr; });
}

bool Graph::has_conditionals() const {
  return Any([](const GraphNode& node) { return node.body != nullptr; });
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
    for (GraphNode* node : next[order[i]])
      if (--waiting[node] == 0) order.push_back(node);
  }
  if (order.size() != nodes_.size()) order.clear();
  return order;
}

}  // namespace farcall::cpu_device
