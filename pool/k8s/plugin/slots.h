// SPDX-License-Identifier: Apache-2.0
// The folders that containers see as /etc/farcall: one for each attach slot of a node.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/k8s/claims/binding.h"
#include "proto/status.h"

namespace farcall::k8s {

// Folder `root`/slots/N has mode 0755 and files of mode 0444, because a container runs as any user;
// `root` itself is its owner's alone, so that nobody else on the node reaches them.
//   Thread  any
class Slots final {
 public:
  Slots(std::string root, int count) : root_(std::move(root)), count_(count) {}
  int count() const { return count_; }

  // "slot-7" and 7.
  static std::string Id(int slot) { return "slot-" + std::to_string(slot); }
  std::optional<int> NumberOf(std::string_view id) const;
  // Whose folder a container with these devices has: the lowest one's. Devices are one container's
  // each, so no two containers have the same.
  //   Errors  kInvalid (none, too many, one twice, one that is not ours)
  Result<int> SlotOf(const std::vector<std::string>& ids) const;

  std::string Folder(int slot) const { return root_ + "/slots/" + std::to_string(slot); }
  //   Errors  kUnavailable, with the system's reason
  Status Prepare(int slot);
  // Whoever reads meanwhile finds the old files or the new ones, each whole.
  //   Errors  as Prepare; kInvalid (a value that cannot stand in the file)
  Status Write(int slot, const Binding& binding);
  // Empties the folder that names this claim.
  void Forget(const std::string& claim);

 private:
  const std::string root_;
  const int count_;
  std::mutex mutex_;
};

}  // namespace farcall::k8s
