// SPDX-License-Identifier: Apache-2.0
// What the server of fuzz_client answers to every question until told otherwise.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <span>

namespace farcall::fuzz {

// `body` follows the status in the reply, and stays valid while it may be asked for.
void SetReply(CUresult status, std::span<const std::byte> body);

}  // namespace farcall::fuzz
