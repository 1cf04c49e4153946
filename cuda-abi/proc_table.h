// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress: from a name, a CUDA version and stream flags to the entry of that version.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace farcall::cuda_abi {

// A row of the generated proc_table.inc.
struct ProcRow {
  const char* name;    // as an application asks: "cuMemAlloc"
  int version;         // the CUDA version that introduced this entry: 3020
  uint32_t flags;      // 0, or 2 for a per-thread-default-stream entry
  const char* symbol;  // the exported name: "cuMemAlloc_v2"
  void* entry;         // nullptr = not implemented
};

// Values of CUdriverProcAddressQueryResult.
enum class ProcStatus { kFound = 0, kNotFound = 1, kVersionNotSufficient = 2 };

struct ProcResult {
  void* entry = nullptr;
  ProcStatus status = ProcStatus::kNotFound;
  bool valid_flags = true;  // false: the caller answers INVALID_VALUE
};

class ProcTable {
 public:
  // Keeps the rows that have an entry. The strings must outlive the table.
  explicit ProcTable(const std::vector<ProcRow>& rows);

  // The newest entry of `name` that is not newer than `version`.
  //   flags   0 and 1: the legacy stream's entry; 2: the per-thread one where the call has two,
  //           else the only one
  //   Errors  kNotFound (unknown, empty or unimplemented name), kVersionNotSufficient (each entry
  //           is newer)
  //   Thread  any
  //   Source  CUDA Driver API 13.0, cuGetProcAddress
  ProcResult Lookup(const char* name, int version, uint64_t flags) const;

 private:
  struct Entry {
    int version;
    void* entry;
  };
  struct Name {
    std::vector<Entry> legacy;      // ascending version
    std::vector<Entry> per_thread;  // ascending version
  };
  std::unordered_map<std::string, Name> names_;
};

}  // namespace farcall::cuda_abi
