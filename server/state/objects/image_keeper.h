// SPDX-License-Identifier: Apache-2.0
// Who keeps images for later sessions: the supervisor, over the worker's control socket. A worker
// reads them and writes none.
#pragma once

#include <cstddef>
#include <span>

#include "proto/handshake/crypto.h"

namespace farcall::server {

//   Thread  any
class ImageKeeper {
 public:
  virtual ~ImageKeeper() = default;
  // Offers an image. It is a cache: nobody says whether it was taken.
  virtual void Keep(const Hash256& hash, std::span<const std::byte> bytes) = 0;
  // One was read: what was used longest ago goes first. Not intact: its bytes do not hash to its
  // name.
  virtual void NoteRead(const Hash256& hash, bool intact) = 0;
};

}  // namespace farcall::server
