// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/proc_table.h"

#include <algorithm>

namespace farcall::cuda_abi {
namespace {

constexpr uint64_t kLegacyStream = 1;
constexpr uint64_t kPerThreadStream = 2;

}  // namespace

ProcTable::ProcTable(const std::vector<ProcRow>& rows) {
  for (const ProcRow& row : rows) {
    if (row.entry == nullptr) continue;
    Name& name = names_[row.name];
    (row.flags & kPerThreadStream ? name.per_thread : name.legacy)
        .push_back({row.version, row.entry});
  }
  const auto older = [](const Entry& a, const Entry& b) { return a.version < b.version; };
  for (auto& [key, name] : names_) {
    std::sort(name.legacy.begin(), name.legacy.end(), older);
    std::sort(name.per_thread.begin(), name.per_thread.end(), older);
  }
}

ProcResult ProcTable::Lookup(const char* name, int version, uint64_t flags) const {
  ProcResult result;
  if ((flags & ~(kLegacyStream | kPerThreadStream)) != 0 ||
      flags == (kLegacyStream | kPerThreadStream)) {
    result.valid_flags = false;
    return result;
  }
  if (name == nullptr) return result;
  const auto found = names_.find(name);
  if (found == names_.end()) return result;
  const Name& entries = found->second;
  const bool per_thread = (flags & kPerThreadStream) != 0 && !entries.per_thread.empty();
  const std::vector<Entry>& list = per_thread ? entries.per_thread : entries.legacy;
  result.status = list.empty() ? ProcStatus::kNotFound : ProcStatus::kVersionNotSufficient;
  for (const Entry& entry : list) {
    if (entry.version > version) break;
    result.entry = entry.entry;
    result.status = ProcStatus::kFound;
  }
  return result;
}

}  // namespace farcall::cuda_abi
