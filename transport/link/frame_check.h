// SPDX-License-Identifier: Apache-2.0
// What can be told wrong about a frame or a chunk from its header alone.
#pragma once

#include <cstddef>
#include <span>

#include "proto/status.h"
#include "proto/wire.h"

namespace farcall {

//   Errors  kMalformed, naming field and value
Status CheckFrameHeader(const FrameHeader& header);
Status CheckChunkHeader(const ChunkHeader& header);
// Of a whole frame: the checksum in its header, unless that is 0.
Status CheckFrameSum(const FrameHeader& header, std::span<const std::byte> frame);

}  // namespace farcall
