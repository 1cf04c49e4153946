// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/host_functions.h"

#include <mutex>
#include <unordered_map>

namespace farcall::client {

namespace {

struct Entry {
  std::function<void(CUresult)> function;
  bool once = true;
  bool called = false;  // a call is queued: the server may not ask again
};
struct Table {
  std::mutex mutex;
  std::unordered_map<uint64_t, Entry> entries;
  uint64_t next = 1;
};
Table* g_table = new Table;
thread_local bool t_in_host_function = false;

}  // namespace

uint64_t RegisterHostFunction(std::function<void(CUresult)> function, bool once) {
  std::lock_guard lock(g_table->mutex);
  uint64_t id = g_table->next++;
  g_table->entries[id] = {std::move(function), once, false};
  return id;
}

bool IsHostFunction(uint64_t id) {
  std::lock_guard lock(g_table->mutex);
  auto found = g_table->entries.find(id);
  if (found == g_table->entries.end() || found->second.called) return false;
  found->second.called = found->second.once;
  return true;
}

void RunHostFunction(uint64_t id, CUresult status) {
  std::function<void(CUresult)> function;
  {
    std::lock_guard lock(g_table->mutex);
    auto found = g_table->entries.find(id);
    if (found == g_table->entries.end()) return;
    function = found->second.function;
    if (found->second.once) g_table->entries.erase(found);
  }
  t_in_host_function = true;
  function(status);
  t_in_host_function = false;
}

bool InHostFunction() {
  return t_in_host_function;
}

}  // namespace farcall::client
