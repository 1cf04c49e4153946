// SPDX-License-Identifier: Apache-2.0
// A pool's configuration as YAML: projects, users and hosts.
#pragma once

#include <string>

#include "generated/proto/pool.pb.h"
#include "proto/status.h"

namespace farcall::cli {

// Quotas are written as for `farcall pool project set`: {mem: 80GiB, share: 250%, gpus: 2}.
//   Errors  kInvalid (one line, with the line of the file), kUnavailable (no such file)
Status ReadConfigFile(const std::string& path, pool::v1::Config* config);

}  // namespace farcall::cli
