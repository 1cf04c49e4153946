// SPDX-License-Identifier: Apache-2.0
// Which card, port and GID verbs:// uses: DEVICE[:PORT[:GID]], as --verbs and FARCALL_VERBS_DEVICE
// have it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/status.h"

namespace farcall {

inline constexpr char kVerbsDeviceVariable[] = "FARCALL_VERBS_DEVICE";

struct VerbsChoice {
  std::string device;  // empty: the first that has an active port
  int port = 0;        // 0: its first active one
  int gid = -1;        // an index; -1: the one that fits best
};

// "", "auto", "mlx5_0", "mlx5_0:1" or "mlx5_0:1:3".
//   Errors  kInvalid, one line
Result<VerbsChoice> ParseVerbsChoice(std::string_view text);

}  // namespace farcall
