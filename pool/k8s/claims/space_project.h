// SPDX-License-Identifier: Apache-2.0
// Which project of the pool a namespace's claims are in.
#pragma once

#include <chrono>
#include <mutex>
#include <set>
#include <string>

#include "pool/client/rest_client.h"

namespace farcall::k8s {

//   Thread  any
class SpaceProjects final {
 public:
  // `pool` outlives it. `root`: the project whose children are called as the namespaces; "": the
  // pool decides.
  SpaceProjects(pool::RestClient* pool, std::string root) : pool_(pool), root_(std::move(root)) {}

  // ROOT/NAMESPACE if the pool has it, else ROOT: a namespace that nobody has given a project is
  // held to what all of them together may have.
  //   Errors  kUnavailable, kRefused (the pool)
  Result<std::string> Of(const std::string& space);

 private:
  Status List(std::set<std::string>* names);

  pool::RestClient* const pool_;
  const std::string root_;
  std::mutex mutex_;
  std::set<std::string> known_;
  std::chrono::steady_clock::time_point asked_{};
};

}  // namespace farcall::k8s
