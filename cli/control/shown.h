// SPDX-License-Identifier: Apache-2.0
// What the views show: one server, or the hosts of a pool.
#pragma once

#include <string>
#include <vector>

#include "generated/proto/control.pb.h"
#include "generated/proto/pool.pb.h"

namespace farcall::cli {

namespace pb = farcall::control::v1;

struct Shown {
  std::string host;                // "": one server, whose name need not be told
  const pb::ServerStatus* status;  // of the message that it was taken from
  // What a pool is about to take; nullptr: it is not of a pool.
  const google::protobuf::RepeatedPtrField<pool::v1::LeavingClaim>* leaving = nullptr;
};

inline std::vector<Shown> ShownOf(const pb::ServerStatus& status) {
  return {{"", &status}};
}

inline std::vector<Shown> ShownOf(const pool::v1::PoolStatus& status) {
  std::vector<Shown> all;
  for (const pool::v1::HostStatus& host : status.hosts())
    all.push_back({host.host(), &host.status(), &host.leaving()});
  return all;
}

}  // namespace farcall::cli
