// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/transport_choice.h"

namespace farcall::client {

Status MoveToSharedMemory(Connected* connected) {
  const std::string& path = connected->welcome.shm_path;
  if (path.empty())
    return {Code::kUnsupported, "the server offers no shared memory (serve --shm auto does)"};
  const std::string endpoint = "shm://" + path;
  Result<Link::Reconnected> moved = Rejoin(endpoint, connected->welcome.session, connected->key,
                                           LinkRole::kLog, 0, /*received_seq=*/0, 0);
  if (!moved.ok()) return moved.status();
  connected->channel = std::move(moved->channel);
  connected->path = endpoint;
  return {};
}

}  // namespace farcall::client
