// SPDX-License-Identifier: Apache-2.0
// What can be told wrong about a frame or a chunk from its header alone.
#pragma once

#include <cstddef>
#include <span>

#include "proto/status.h"
#include "proto/wire.h"

namespace farcall {

// Whether CheckFrameHeader has nothing to say.
inline bool IsSound(const FrameHeader& header) {
  return header.magic == kFrameMagic && header.bytes >= sizeof(FrameHeader) &&
         header.bytes <= kMaxFrameBytes && header.bytes % 8 == 0 &&
         (header.seq == 0 ? header.records == 0 && header.bytes == sizeof(FrameHeader) &&
                                header.flags <= kFrameAsks
                          : header.records != 0 && header.flags == 0);
}
// Of a whole frame, whose header this is a copy of: its checksum is right, or 0. Clears the
// checksum within the frame, which the caller alone may write.
bool HasRightSum(const FrameHeader& header, std::span<std::byte> frame);

//   Errors  kMalformed, naming field and value
Status CheckFrameHeader(const FrameHeader& header);
// `may_be_packed`: kPackedMagic is right too.
Status CheckChunkHeader(const ChunkHeader& header, bool may_be_packed);
Status CheckPackedHeader(const PackedHeader& packed, const ChunkHeader& header);
// Of a whole frame: the checksum in its header, unless that is 0.
Status CheckFrameSum(const FrameHeader& header, std::span<const std::byte> frame);

}  // namespace farcall
