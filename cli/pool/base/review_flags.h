// SPDX-License-Identifier: Apache-2.0
// --kube-*: the cluster whose service accounts log in to a pool.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "pool/k8s/api/api_client.h"
#include "pool/oidc/provider.h"

namespace farcall::cli {

struct ReviewFlags {
  k8s::ApiAddress api;
  std::string audience = "farcall";
  std::vector<std::string> roles;
  double hours = 1;
};

void AddReviewFlags(CLI::App* command, ReviewFlags* flags);
// What they come to; without --kube-api nothing.   Errors  kInvalid, one line that names the flag
Status ReadReviewFlags(const ReviewFlags& flags, pool::LoginReview* review);

}  // namespace farcall::cli
