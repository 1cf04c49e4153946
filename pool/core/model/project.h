// SPDX-License-Identifier: Apache-2.0
// Projects: a tree by name ("research/vision" is a child of "research"), with weights, quotas and
// limits. A parent counts what its children use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::pool {

// Of a claim that names none. It is always there.
inline constexpr char kDefaultProject[] = "default";
inline constexpr size_t kMaxProjectDepth = 8, kMaxProjectName = 128, kMaxProjectModels = 16;
inline constexpr uint32_t kMaxWeight = 10'000;

// What claims hold, summed over their GPUs. A claim on a whole GPU counts all of its memory and
// time.
struct Amounts {
  uint64_t memory_bytes = 0;
  uint64_t share_milli = 0;  // thousandths of a GPU's time
  uint64_t gpus = 0;         // that are taken whole
  uint64_t net_bytes_per_s = 0;
  // Thousandths of a GPU: on each, the larger of the parts of its time and of its memory.
  uint64_t device_milli = 0;

  Amounts& operator+=(const Amounts& other);
  Amounts& operator-=(const Amounts& other);
  bool operator==(const Amounts&) const = default;
};

// Bounds on them; a resource without a number has none.
struct Bounds {
  std::optional<uint64_t> memory_bytes, share_milli, gpus;

  bool is_empty() const { return !memory_bytes && !share_milli && !gpus; }
  // The first resource of which `used` is more than its bound; "": none.
  std::string_view Exceeded(const Amounts& used) const;
  bool operator==(const Bounds&) const = default;
};

// Bounds on GPUs whose name contains `model`.
struct ModelBounds {
  std::string model;
  Bounds deserved, limit;
  bool operator==(const ModelBounds&) const = default;
};

struct Project {
  std::string name;
  uint32_t weight = 1;                        // beside its siblings
  std::optional<uint32_t> over_quota_weight;  // the same, above its deserved quota; absent: weight
  Bounds deserved;                            // may be reclaimed from projects above theirs
  Bounds limit;                               // never more, whatever is free
  std::vector<ModelBounds> models;
  // Bounds on claims, its children's included; 0: none. What waits beyond the first is refused,
  // what runs beyond the second waits.
  uint32_t max_pending = 0, max_claims = 0;
  uint32_t tenant_max_pending = 0, tenant_max_claims = 0;  // of each tenant, in this project alone
  uint64_t revision = 0;
  // As they were stored; ProjectState has them as they are.
  double usage_ms = 0;
  std::map<std::string, double> tenant_usage_ms;
};

// 1 to 8 names of 1 to 64 letters, digits, `.`, `_` and `-` that begin with a letter or digit,
// joined by "/"; 128 characters at most.
bool IsProjectName(std::string_view name);
// "" of a project at the top.
std::string ParentOf(std::string_view name);
// Whether `name` is `ancestor` or lies below it.
bool IsWithin(std::string_view name, std::string_view ancestor);
// What cannot be, and the field; "": nothing.
std::pair<std::string, std::string> FaultOf(const Project& project);

}  // namespace farcall::pool
