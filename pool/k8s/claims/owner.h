// SPDX-License-Identifier: Apache-2.0
// The owner of a pool's claim that a container has: whose it is, in one line of text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace farcall::k8s {

inline constexpr std::string_view kOwnerStart = "k8s:";
inline constexpr size_t kMaxOwner = 256;  // the pool's

struct ClaimOwner {
  std::string space, pod, container, node;  // node "": it did not fit, or an older plugin wrote it
};

// What follows "k8s:SCOPE:UID:CONTAINER:" in an owner, for people.
inline std::string OwnerEnd(const std::string& space, const std::string& pod,
                            const std::string& node) {
  return space + "/" + pod + "@" + node;
}

// nullopt: it is no such owner.
inline std::optional<ClaimOwner> ReadOwner(std::string_view owner) {
  if (owner.substr(0, kOwnerStart.size()) != kOwnerStart) return std::nullopt;
  owner.remove_prefix(kOwnerStart.size());
  ClaimOwner read;
  for (int part = 0; part < 3; ++part) {  // scope, uid, container
    const size_t colon = owner.find(':');
    if (colon == owner.npos) return std::nullopt;
    read.container = owner.substr(0, colon);
    owner.remove_prefix(colon + 1);
  }
  const size_t slash = owner.find('/');
  if (slash == owner.npos) return std::nullopt;
  read.space = owner.substr(0, slash);
  owner.remove_prefix(slash + 1);
  const size_t at = owner.find('@');
  read.pod = owner.substr(0, at);
  if (at != owner.npos) read.node = owner.substr(at + 1);
  return read;
}

}  // namespace farcall::k8s
