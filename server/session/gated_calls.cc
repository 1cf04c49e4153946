// SPDX-License-Identifier: Apache-2.0
#include "server/session/gated_calls.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "proto/call_id.h"
#include "server/session/serve.h"

namespace farcall::server {

namespace {

constexpr std::array<std::string_view, 9> kWork = {
    "cuLaunch",      "cuGraphLaunch",   "cuGraphUpload",        "cuMemcpy",         "cuMemset",
    "cuMemPrefetch", "cuMemDiscardAnd", "cuMemBatchDecompress", "cuMemDiscardBatch"};
constexpr std::string_view kHostFunction = "cuLaunchHostFunc";

constexpr size_t kFunctionAndGeometry = 36;  // of cuLaunchKernel's body: u64, seven u32
constexpr size_t kGraph = 8;

std::vector<bool> GatedRows() {
  std::vector<bool> rows(kDispatchRows);
  for (uint16_t id = 0; id < kDispatchRows; ++id) {
    rows[id] = kDispatchTable[id].serve != nullptr && PutsWorkOnDevice(kDispatchTable[id].name);
  }
  return rows;
}

uint64_t Mix(uint64_t key, uint64_t word) {
  key = (key ^ word) * 0x9e3779b97f4a7c15u;
  return key ^ (key >> 29);
}

}  // namespace

bool PutsWorkOnDevice(std::string_view name) {
  return name.substr(0, kHostFunction.size()) != kHostFunction &&
         std::any_of(kWork.begin(), kWork.end(), [name](std::string_view prefix) {
           return name.substr(0, prefix.size()) == prefix;
         });
}

uint64_t WorkKey(const RecordView& record) {
  static const std::vector<bool> gated = GatedRows();
  if (record.header.call >= gated.size() || !gated[record.header.call]) {
    return 0;
  }
  auto call = static_cast<CallId>(record.header.call);
  size_t telling = call == CallId::cuLaunchKernel  ? kFunctionAndGeometry
                   : call == CallId::cuGraphLaunch ? kGraph
                                                   : 0;
  uint64_t key = Mix(1, record.header.call);
  telling = std::min(telling, record.body.size());
  for (size_t at = 0; at < telling; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, record.body.data() + at, std::min(sizeof(word), telling - at));
    key = Mix(key, word);
  }
  if (telling == 0) {
    key = Mix(key, std::bit_width(record.body.size()));
  }
  return key | 1;
}

}  // namespace farcall::server
