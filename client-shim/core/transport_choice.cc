// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/transport_choice.h"

#include "proto/ucx_transport.h"
#include "transport/ucx/ucx_channel.h"

namespace farcall::client {

Status MoveToSharedMemory(Connected* connected) {
  const std::string& path = connected->welcome.shm_path;
  if (path.empty())
    return {Code::kUnsupported, "the server offers no shared memory (serve --shm auto does)"};
  const std::string endpoint = "shm://" + path;
  Result<Link::Reconnected> moved =
      Rejoin(endpoint, TransportKind::kTcp, connected->welcome.session, connected->key,
             LinkRole::kLog, 0, /*received_seq=*/0, 0);
  if (!moved.ok()) return moved.status();
  connected->channel = std::move(moved->channel);
  connected->path = endpoint;
  return {};
}

Status CheckUcx() {
  const Status here = UcxContext::OfProcess().status();
  return here.ok() ? here : Status(here.code(), "transport ucx: " + here.message());
}

Status MoveToUcx(const Welcome& welcome, Clock::time_point deadline,
                 std::unique_ptr<Channel>* channel) {
  if (!UsesUcx(welcome)) {
    return {Code::kUnsupported,
            "transport ucx: the server does not offer it (`farcall serve --ucx` does)"};
  }
  return MoveToUcx(LinkRole::kLog, deadline, channel);
}

Status MoveToUcx(LinkRole role, Clock::time_point deadline, std::unique_ptr<Channel>* channel) {
  Result<UcxContext*> context = UcxContext::OfProcess();
  if (!context.ok()) return context.status();
  Result<FabricEndPointer> end =
      MakeUcxEnd(**context, role == LinkRole::kLog ? kUcxLogWindowBytes : kUcxLaneWindowBytes);
  if (!end.ok()) return end.status();
  std::unique_ptr<FabricConnection> moved = MakeFabricChannel(std::move(*channel), std::move(*end));
  FARCALL_TRY(moved->AwaitPeer(deadline));
  *channel = std::move(moved);
  return {};
}

}  // namespace farcall::client
