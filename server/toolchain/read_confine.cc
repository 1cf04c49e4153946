// SPDX-License-Identifier: Apache-2.0
#include "server/toolchain/read_confine.h"

#include "server/confine/landlock.h"

namespace farcall::server {

Status ConfineReads(const std::vector<std::string>& folders) {
  LandlockRules rules;
  for (const std::string& folder : folders) rules.Allow(folder, LandlockRules::Access::kRead);
  return rules.Enforce();
}

}  // namespace farcall::server
