// SPDX-License-Identifier: Apache-2.0
// What runs on the hosts of a pool, asked of the pool: `pool://host:port` or `pools://host:port` is
// all that is known.
#pragma once

#include <memory>
#include <string>

#include "generated/proto/pool.grpc.pb.h"
#include "proto/status.h"

namespace farcall::cli {

class PoolClient {
 public:
  // Asks the pool where its gRPC is. `token_file` and `ca_file` as farcall pool's verbs have them;
  // who names a CA takes no plain gRPC.
  //   Errors  kInvalid (no such file), what the pool refuses with, kUnavailable, kTimeout
  static Result<std::unique_ptr<PoolClient>> Open(const std::string& endpoint,
                                                  const std::string& token_file,
                                                  const std::string& ca_file);
  Result<pool::v1::PoolStatus> Ask();

 private:
  PoolClient(std::string endpoint, std::string token, std::unique_ptr<pool::v1::Hosts::Stub> hosts)
      : endpoint_(std::move(endpoint)), token_(std::move(token)), hosts_(std::move(hosts)) {}

  const std::string endpoint_, token_;
  const std::unique_ptr<pool::v1::Hosts::Stub> hosts_;
};

}  // namespace farcall::cli
