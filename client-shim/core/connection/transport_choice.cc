// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/connection/transport_choice.h"

#include "proto/handshake/fabric_transport.h"
#include "transport/ucx/ucx_channel.h"
#include "transport/verbs/verbs_channel.h"

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

Status CheckFabric(TransportKind kind) {
  if (kind == kVerbsTransport) {
    const Status here = VerbsDeviceOfProcess().status();
    return here.ok() ? here : Status(here.code(), "transport " + here.message());
  }
  const Status here = UcxContext::OfProcess().status();
  return here.ok() ? here : Status(here.code(), "transport ucx: " + here.message());
}

Status MoveToFabric(TransportKind kind, const Welcome& welcome, Clock::time_point deadline,
                    std::unique_ptr<Channel>* channel) {
  if (!UsesFabric(kind, welcome)) {
    const std::string name = FabricName(kind);
    return {Code::kUnsupported, "transport " + name +
                                    ": the server does not offer it (`farcall serve --" + name +
                                    (kind == kVerbsTransport ? " auto` does)" : "` does)")};
  }
  return MoveToFabric(kind, LinkRole::kLog, deadline, channel);
}

namespace {

Result<FabricEndPointer> MakeEnd(TransportKind kind, bool is_log) {
  if (kind == kVerbsTransport) {
    Result<VerbsDevice*> device = VerbsDeviceOfProcess();
    if (!device.ok()) return device.status();
    return MakeVerbsEnd(**device, VerbsRole::kOffers, is_log ? VerbsUse::kLog : VerbsUse::kLane);
  }
  Result<UcxContext*> context = UcxContext::OfProcess();
  if (!context.ok()) return context.status();
  return MakeUcxEnd(**context, is_log ? kUcxLogWindowBytes : kUcxLaneWindowBytes);
}

}  // namespace

Status MoveToFabric(TransportKind kind, LinkRole role, Clock::time_point deadline,
                    std::unique_ptr<Channel>* channel) {
  Result<FabricEndPointer> end = MakeEnd(kind, role == LinkRole::kLog);
  if (!end.ok()) return end.status();
  std::unique_ptr<FabricConnection> moved = MakeFabricChannel(std::move(*channel), std::move(*end));
  FARCALL_TRY(moved->AwaitPeer(deadline));
  *channel = std::move(moved);
  return {};
}

}  // namespace farcall::client
