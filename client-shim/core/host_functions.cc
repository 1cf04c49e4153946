// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/host_functions.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "client-shim/core/report/log.h"
#include "client-shim/core/session/thread_state.h"

namespace farcall::client {

namespace {

struct Entry {
  std::function<void(CUresult)> function;
  std::function<void(std::function<void()>)> deferred;
  bool once = true;
  bool ours = false;
  bool called = false;  // a call is queued: the server may not ask again
  Context* context = nullptr;
};
struct Table {
  std::mutex mutex;
  std::unordered_map<uint64_t, Entry> entries;
  uint64_t next = 1;
  std::atomic<uint64_t> pending{0};  // the application's, captured ones for ever
};
Table* g_table = new Table;
thread_local bool t_in_host_function = false;

}  // namespace

uint64_t RegisterHostFunction(std::function<void(CUresult)> function, HostFunctionKind kind) {
  std::lock_guard lock(g_table->mutex);
  uint64_t id = g_table->next++;
  bool ours = kind == HostFunctionKind::kOurs;
  g_table->entries[id] = {std::move(function), {}, kind != HostFunctionKind::kCaptured, ours, false,
                          CurrentContext()};
  if (!ours) g_table->pending.fetch_add(1);
  return id;
}

uint64_t RegisterDeferred(std::function<void(std::function<void()> done)> function) {
  std::lock_guard lock(g_table->mutex);
  uint64_t id = g_table->next++;
  Entry& entry = g_table->entries[id];
  entry.deferred = std::move(function);
  entry.ours = true;
  return id;
}

bool HostFunctionsPending() {
  return g_table->pending.load() != 0;
}

bool IsHostFunction(uint64_t id) {
  std::lock_guard lock(g_table->mutex);
  auto found = g_table->entries.find(id);
  if (found == g_table->entries.end() || found->second.called) return false;
  found->second.called = found->second.once;
  return true;
}

void RunHostFunction(uint64_t id, CUresult status, const std::function<void()>& done) {
  std::function<void(CUresult)> function;
  std::function<void(std::function<void()>)> deferred;
  bool ours = false, once = false;
  Context* context = nullptr;
  {
    std::lock_guard lock(g_table->mutex);
    auto found = g_table->entries.find(id);
    if (found == g_table->entries.end()) return;  // IsHostFunction has seen it
    function = found->second.function;
    deferred = found->second.deferred;
    ours = found->second.ours;
    once = found->second.once;
    context = found->second.context;
    if (once) g_table->entries.erase(found);
  }
  if (deferred) return deferred(done);
  // Work ahead of it may have failed and never run, of which no wait has told yet: as after any
  // failure, a callback hears of it and a host function does not run.
  if (!ours && status == CUDA_SUCCESS && context != nullptr) {
    status = static_cast<CUresult>(context->lost_work.load());
    // What a library could not do (kLibraryFailed) comes with this code. Beside a real library the
    // device is well and runs them: a program may wait for nothing else, as XLA does.
    if (status == CUDA_ERROR_UNKNOWN) status = CUDA_SUCCESS;
    if (status != CUDA_SUCCESS)
      Log(LogLevel::kInfo, "work ahead of a host function failed with %d",
          static_cast<int>(status));
  }
  t_in_host_function = !ours;
  function(status);
  t_in_host_function = false;
  if (once && !ours) g_table->pending.fetch_sub(1);
  if (done) done();
}

bool InHostFunction() {
  return t_in_host_function;
}

}  // namespace farcall::client
