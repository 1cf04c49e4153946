// SPDX-License-Identifier: Apache-2.0
// Gangs: claims that start together.
#pragma once

#include "cli/pool/base/pool_options.h"
#include "generated/proto/pool.pb.h"

namespace farcall::cli {

// `farcall pool request --gang`. Without a place it is released, unless `keeps`.   The exit code
int RequestGang(const PoolOptions& pool, const pool::v1::GangRequest& request, bool keeps);

}  // namespace farcall::cli
