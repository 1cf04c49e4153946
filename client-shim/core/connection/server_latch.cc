// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/connection/server_latch.h"

#include <array>
#include <utility>
#include <vector>

#include "client-shim/core/session/routing.h"

namespace farcall::client {

namespace {

struct Registry {
  std::mutex mutex;
  std::array<std::vector<std::weak_ptr<ServerLatch>>, kMaxServers> latches;
  std::array<bool, kMaxServers> is_over{};
};
Registry* g_registry = new Registry;  // leaked: threads may outlive exit handlers

}  // namespace

std::shared_ptr<ServerLatch> ServerLatch::New(uint8_t server) {
  auto latch = std::make_shared<ServerLatch>();
  std::lock_guard lock(g_registry->mutex);
  auto& known = g_registry->latches[server];
  std::erase_if(known, [](const std::weak_ptr<ServerLatch>& each) { return each.expired(); });
  known.push_back(latch);
  latch->is_set_ = g_registry->is_over[server];
  return latch;
}

void ServerLatch::Set() {
  std::function<void()> then;
  {
    std::lock_guard lock(mutex_);
    is_set_ = true;
    then = std::exchange(then_, nullptr);
  }
  if (then) then();
}

void ServerLatch::WhenSet(std::function<void()> then) {
  {
    std::lock_guard lock(mutex_);
    if (!is_set_) {
      then_ = std::move(then);
      return;
    }
  }
  then();
}

void SetLatchesOf(uint8_t server) {
  std::vector<std::weak_ptr<ServerLatch>> latches;
  {
    std::lock_guard lock(g_registry->mutex);
    g_registry->is_over[server] = true;
    latches.swap(g_registry->latches[server]);
  }
  for (const std::weak_ptr<ServerLatch>& each : latches)
    if (std::shared_ptr<ServerLatch> latch = each.lock()) latch->Set();
}

}  // namespace farcall::client
