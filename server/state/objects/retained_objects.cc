// SPDX-License-Identifier: Apache-2.0
#include "server/state/objects/retained_objects.h"

#include <cstring>

#include "server/state/objects/context_state.h"

namespace farcall::server {

namespace {
void EndTimes(HandleKind kind, void* extra) {
  if (kind == HandleKind::kEvent && extra != nullptr) static_cast<EventState*>(extra)->EndTimes();
}
}  // namespace

std::byte* RetainedObjects::KeepBytes(std::span<const std::byte> bytes) {
  auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  std::lock_guard lock(mutex_);
  kept_.push_back(std::move(copy));
  return kept_.back().get();
}

void RetainedObjects::Keep(std::shared_ptr<void> object) {
  std::lock_guard lock(mutex_);
  kept_objects_.push_back(std::move(object));
}

void RetainedObjects::Retire(HandleKind kind, void* extra) {
  EndTimes(kind, extra);
  std::lock_guard lock(mutex_);
  if (extra != nullptr) retired_.emplace_back(kind, extra);
}

void RetainedObjects::RetireReplaced(HandleKind kind, void* extra) {
  EndTimes(kind, extra);
  std::lock_guard lock(mutex_);
  if (extra != nullptr) {
    replaced_.emplace_back(kind, extra);
    ++replaced_count_;
  }
}

void RetainedObjects::DeleteReplaced() {
  std::lock_guard lock(mutex_);
  for (auto [kind, extra] : std::exchange(replaced_, {})) DeleteExtra(kind, extra);
  replaced_count_ = 0;
}

void RetainedObjects::DeleteAll() {
  DeleteReplaced();
  std::lock_guard lock(mutex_);
  for (auto [kind, extra] : std::exchange(retired_, {})) DeleteExtra(kind, extra);
}

}  // namespace farcall::server
