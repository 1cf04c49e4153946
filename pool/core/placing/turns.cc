// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/turns.h"

#include <algorithm>

#include "pool/core/model/project_state.h"

namespace farcall::pool {

size_t Turns::Child(size_t parent, const ProjectState& project, const TenantPart* tenant) {
  auto [known, is_new] = known_.try_emplace(
      tenant != nullptr ? static_cast<const void*>(tenant) : &project, nodes_.size());
  if (!is_new) return known->second;
  Node& node = nodes_.emplace_back();
  node.project = &project;
  node.tenant = tenant;
  node.parent = parent;
  node.value = value_of_(project, tenant);
  nodes_[parent].children.push_back(known->second);
  return known->second;
}

size_t Turns::NodeOf(const ProjectState& project) {
  const size_t parent = project.parent == nullptr ? 0 : NodeOf(*project.parent);
  return Child(parent, project, nullptr);
}

void Turns::Add(const ProjectState& project, const TenantPart& tenant, size_t line,
                const Rank& head) {
  size_t at = Child(NodeOf(project), project, &tenant);
  nodes_[at].lines[head] = line;
  for (;; at = nodes_[at].parent) {
    std::optional<Rank>& best = nodes_[at].best;
    if (best && *best < head) return;  // nor above
    best = head;
    if (at == 0) return;
  }
}

std::optional<size_t> Turns::Next() {
  size_t at = 0;
  if (!nodes_[0].best) return std::nullopt;
  const int32_t priority = nodes_[0].best->queue_priority;
  while (nodes_[at].lines.empty()) {
    const Node* next = nullptr;
    size_t next_at = 0;
    for (size_t child : nodes_[at].children) {
      const Node& node = nodes_[child];
      if (!node.best || node.best->queue_priority != priority) continue;
      const bool is_before = next == nullptr || node.value < next->value ||
                             (node.value == next->value && *node.best < *next->best);
      if (!is_before) continue;
      next = &node;
      next_at = child;
    }
    at = next_at;
  }
  chosen_ = at;
  return nodes_[at].lines.begin()->second;
}

void Turns::Advance(const std::optional<Rank>& head) {
  Node& leaf = nodes_[chosen_];
  const size_t line = leaf.lines.begin()->second;
  leaf.lines.erase(leaf.lines.begin());
  if (head) leaf.lines[*head] = line;
  for (size_t at = chosen_;; at = nodes_[at].parent) {
    Refresh(at);
    if (at == 0) return;
  }
}

void Turns::Refresh(size_t at) {
  Node& node = nodes_[at];
  if (at != 0) node.value = value_of_(*node.project, node.tenant);
  node.best.reset();
  if (!node.lines.empty()) node.best = node.lines.begin()->first;
  for (size_t child : node.children)
    if (const auto& best = nodes_[child].best; best && (!node.best || *best < *node.best))
      node.best = best;
}

}  // namespace farcall::pool
