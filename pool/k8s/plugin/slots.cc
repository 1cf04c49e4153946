// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/plugin/slots.h"

#include <charconv>
#include <set>

#include "proto/printable.h"

namespace farcall::k8s {

std::optional<int> Slots::NumberOf(std::string_view id) const {
  constexpr std::string_view kStart = "slot-";
  int slot = -1;
  if (id.substr(0, kStart.size()) != kStart) return std::nullopt;
  const std::string_view digits = id.substr(kStart.size());
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), slot);
  if (error != std::errc() || slot < 0 || slot >= count_ || Id(slot) != id) return std::nullopt;
  return slot;
}

Result<int> Slots::SlotOf(const std::vector<std::string>& ids) const {
  std::set<int> slots;
  for (const std::string& id : ids) {
    std::optional<int> slot = NumberOf(id);
    if (!slot)
      return Status(Code::kInvalid,
                    "device " + Quoted(id) + ": there are slot-0 to " + Id(count_ - 1));
    if (!slots.insert(*slot).second)
      return Status(Code::kInvalid, "device " + Quoted(id) + " is named twice");
  }
  if (slots.empty()) return Status(Code::kInvalid, "no device is named");
  return *slots.begin();
}

Status Slots::Prepare(int slot) {
  std::lock_guard lock(mutex_);
  FARCALL_TRY(MakeFolder(root_, 0700));
  FARCALL_TRY(MakeFolder(root_ + "/slots", 0755));
  return MakeFolder(Folder(slot), 0755);
}

Status Slots::Write(int slot, const Binding& binding) {
  FARCALL_TRY(Prepare(slot));
  std::lock_guard lock(mutex_);
  return WriteBinding(Folder(slot), binding);
}

void Slots::Forget(const std::string& claim) {
  std::lock_guard lock(mutex_);
  for (int slot = 0; slot < count_; ++slot)
    if (BoundClaim(Folder(slot)) == claim) RemoveBinding(Folder(slot));
}

}  // namespace farcall::k8s
