// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/project.h"

#include <algorithm>

namespace farcall::pool {

namespace {

constexpr size_t kMaxPart = 64, kMaxModelName = 256;

uint64_t Less(uint64_t from, uint64_t what) {
  return from - std::min(from, what);
}

bool IsPart(std::string_view part) {
  constexpr std::string_view kGood =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  // No name is an option of a command, or a formula in a spreadsheet.
  return !part.empty() && part.size() <= kMaxPart &&
         part.find_first_not_of(kGood) == std::string_view::npos &&
         std::string_view("._-").find(part.front()) == std::string_view::npos;
}

// The first resource whose deserved quota is above its limit; "": none.
std::string_view AboveLimit(const Bounds& deserved, const Bounds& limit) {
  if (deserved.memory_bytes && limit.memory_bytes && *deserved.memory_bytes > *limit.memory_bytes)
    return "memory_bytes";
  if (deserved.share_milli && limit.share_milli && *deserved.share_milli > *limit.share_milli)
    return "share_milli";
  if (deserved.gpus && limit.gpus && *deserved.gpus > *limit.gpus) return "gpus";
  return "";
}

}  // namespace

Amounts& Amounts::operator+=(const Amounts& other) {
  memory_bytes += other.memory_bytes;
  share_milli += other.share_milli;
  gpus += other.gpus;
  net_bytes_per_s += other.net_bytes_per_s;
  device_milli += other.device_milli;
  return *this;
}

Amounts& Amounts::operator-=(const Amounts& other) {
  memory_bytes = Less(memory_bytes, other.memory_bytes);
  share_milli = Less(share_milli, other.share_milli);
  gpus = Less(gpus, other.gpus);
  net_bytes_per_s = Less(net_bytes_per_s, other.net_bytes_per_s);
  device_milli = Less(device_milli, other.device_milli);
  return *this;
}

std::string_view Bounds::Exceeded(const Amounts& used) const {
  if (memory_bytes && used.memory_bytes > *memory_bytes) return "memory";
  if (share_milli && used.share_milli > *share_milli) return "share";
  if (gpus && used.gpus > *gpus) return "GPUs";
  return "";
}

bool IsProjectName(std::string_view name) {
  if (name.empty() || name.size() > kMaxProjectName) return false;
  for (size_t depth = 1; depth <= kMaxProjectDepth; ++depth) {
    const size_t slash = name.find('/');
    if (!IsPart(name.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
  return false;
}

std::string ParentOf(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(name.substr(0, slash));
}

bool IsWithin(std::string_view name, std::string_view ancestor) {
  return name.substr(0, ancestor.size()) == ancestor &&
         (name.size() == ancestor.size() || name[ancestor.size()] == '/');
}

std::pair<std::string, std::string> FaultOf(const Project& project) {
  if (!IsProjectName(project.name))
    return {
        "a project's name has 1 to 8 parts, joined by /, of 1 to 64 letters, digits and . _ - "
        "that begin with a letter or digit",
        "name"};
  if (project.weight < 1 || project.weight > kMaxWeight)
    return {"weight " + std::to_string(project.weight) + ": 1 to " + std::to_string(kMaxWeight),
            "weight"};
  if (project.over_quota_weight && *project.over_quota_weight > kMaxWeight)
    return {"over_quota_weight " + std::to_string(*project.over_quota_weight) + ": 0 to " +
                std::to_string(kMaxWeight),
            "over_quota_weight"};
  if (project.models.size() > kMaxProjectModels)
    return {std::to_string(project.models.size()) + " models: at most " +
                std::to_string(kMaxProjectModels),
            "models"};
  auto above = [](const Bounds& deserved, const Bounds& limit) {
    const std::string_view which = AboveLimit(deserved, limit);
    return which.empty() ? "" : "deserved " + std::string(which) + " above its limit";
  };
  if (std::string wrong = above(project.deserved, project.limit); !wrong.empty())
    return {wrong, "deserved"};
  for (size_t i = 0; i < project.models.size(); ++i) {
    const ModelBounds& bounds = project.models[i];
    if (bounds.model.empty() || bounds.model.size() > kMaxModelName)
      return {"a model's name has 1 to " + std::to_string(kMaxModelName) + " characters", "models"};
    for (size_t before = 0; before < i; ++before)
      if (project.models[before].model == bounds.model)
        return {"model '" + bounds.model + "' is there twice", "models"};
    if (std::string wrong = above(bounds.deserved, bounds.limit); !wrong.empty())
      return {"model '" + bounds.model + "': " + wrong, "models"};
  }
  return {};
}

}  // namespace farcall::pool
