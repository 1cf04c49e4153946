// SPDX-License-Identifier: Apache-2.0
// The order in which claims that wait are tried: one line for each tenant of a project and each
// shape, below the tree of projects. The highest queue priority comes first, whoever's it is; of
// its claims, at each level of the tree, the child that is below its deserved quota, then the one
// of the least value, then the one whose claim has the least turn.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pool/core/model/types.h"

namespace farcall::pool {

struct ProjectState;
struct TenantPart;

class Turns {
 public:
  // Where a child stands among its siblings: the least is first.
  struct Value {
    bool is_over = false;  // its deserved quota
    double value = 0;
    bool operator==(const Value&) const = default;
    bool operator<(const Value& other) const {
      return is_over != other.is_over ? !is_over : value < other.value;
    }
  };
  // Of a project, or where `tenant` is none of nullptr, of that part of it.
  using ValueOf = std::function<Value(const ProjectState& project, const TenantPart* tenant)>;
  explicit Turns(ValueOf value_of) : value_of_(std::move(value_of)) { nodes_.emplace_back(); }

  // A line and its first claim's rank.
  void Add(const ProjectState& project, const TenantPart& tenant, size_t line, const Rank& head);
  // The line whose turn it is; nullopt: none is left.
  std::optional<size_t> Next();
  // Of the line that Next gave: its next claim's rank, or nullopt if it is to be left out. What its
  // project and those above it are worth is asked anew.
  void Advance(const std::optional<Rank>& head);

 private:
  struct Node {
    const ProjectState* project = nullptr;
    const TenantPart* tenant = nullptr;
    size_t parent = 0;
    Value value;
    std::optional<Rank> best;  // of all lines below
    std::vector<size_t> children;
    std::map<Rank, size_t> lines;
  };
  size_t NodeOf(const ProjectState& project);
  size_t Child(size_t parent, const ProjectState& project, const TenantPart* tenant);
  void Refresh(size_t node);

  const ValueOf value_of_;
  std::deque<Node> nodes_;                         // the first is the root
  std::unordered_map<const void*, size_t> known_;  // by project, or tenant
  size_t chosen_ = 0;
};

}  // namespace farcall::pool
