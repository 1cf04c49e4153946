// SPDX-License-Identifier: Apache-2.0
// What the parts of the service have in common: the time, pages, revisions, and an answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "pool/service/service.h"

namespace farcall::pool {

inline constexpr uint32_t kDefaultPage = 100, kMaxPage = 1000;

// Objects of one page, of which a request asks for `limit`; 0: it does not say.
inline uint32_t PageOf(uint32_t limit) {
  return limit == 0 ? kDefaultPage : std::min(limit, kMaxPage);
}

// 0: whatever the revision is.
inline std::optional<uint64_t> IfRevision(uint64_t revision) {
  return revision == 0 ? std::nullopt : std::optional(revision);
}

// So many hexadecimal digits, an even number, that nobody can guess.
std::string RandomHex(size_t digits);

// A new user's tenant: no other user's, also not of one who had that name before.
std::string NewTenant(const std::string& name);

inline Outcome NoClaim(const std::string& id) {
  return Failed(404, "not_found", "there is no claim '" + id.substr(0, 64) + "'", "id",
                "farcall pool list shows them");
}

}  // namespace farcall::pool
