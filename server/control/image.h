// SPDX-License-Identifier: Apache-2.0
// The messages about a tenant's images, which the supervisor alone writes to disk
// (server/supervisor/images/image_writer.h).
#pragma once

#include "proto/handshake/crypto.h"
#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// ---- worker -> supervisor

// A new image, in the memory file.
struct KeepImage {
  static constexpr Type kType = Type::kKeepImage;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kMemoryFile;
  Hash256 hash{};
  static auto Fields(auto& self) { return std::tie(self.hash); }
};

// An image was read from disk.
struct ImageRead {
  static constexpr Type kType = Type::kImageRead;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  Hash256 hash{};
  bool is_intact = false;  // its bytes have that hash
  static auto Fields(auto& self) { return std::tie(self.hash, self.is_intact); }
};

}  // namespace farcall::server::control
