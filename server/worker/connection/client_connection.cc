// SPDX-License-Identifier: Apache-2.0
#include "server/worker/connection/client_connection.h"

#include "proto/handshake/fabric_transport.h"
#include "transport/handshake.h"
#include "transport/shm/shm_channel.h"
#include "transport/tls/tls_channel.h"
#include "transport/ucx/ucx_channel.h"
#include "transport/verbs/verbs_channel.h"

namespace farcall::server {

Result<std::unique_ptr<Channel>> TakeConnection(int fd, std::span<const std::byte> state,
                                                size_t ring_bytes) {
  if (!IsRingState(state)) return AdoptChannel(fd, state);
  Result<std::unique_ptr<Channel>> channel = ServeRings(fd, ring_bytes);
  if (!channel.ok()) {
    const Status& why = channel.status();
    (void)SendRefuse(*AdoptSocket(fd), {why.code(), why.message()},
                     Clock::now() + std::chrono::seconds(2));
  }
  return channel;
}

namespace {

Result<FabricEndPointer> MakeEnd(const Welcome& welcome, bool is_log) {
  if (UsesFabric(kVerbsTransport, welcome)) {
    Result<VerbsDevice*> device = VerbsDeviceOfProcess();
    return device.ok() ? MakeVerbsEnd(**device, VerbsRole::kReaches,
                                      is_log ? VerbsUse::kLog : VerbsUse::kLane)
                       : Result<FabricEndPointer>(device.status());
  }
  if (UsesFabric(kUcxTransport, welcome)) {
    Result<UcxContext*> context = UcxContext::OfProcess();
    return context.ok() ? MakeUcxEnd(**context, is_log ? kUcxLogWindowBytes : kUcxLaneWindowBytes)
                        : Result<FabricEndPointer>(context.status());
  }
  return FabricEndPointer();
}

}  // namespace

Result<FabricEndPointer> PrepareFabric(const Welcome& welcome, bool is_log) {
  Result<FabricEndPointer> end = MakeEnd(welcome, is_log);
  return end.ok() ? std::move(end)
                  : Result<FabricEndPointer>(
                        Status(end.status().code(), "on the server: " + end.status().message()));
}

std::unique_ptr<Channel> GoOn(std::unique_ptr<Channel> channel, FabricEndPointer end) {
  return end == nullptr ? std::move(channel)
                        : MakeFabricChannel(std::move(channel), std::move(end));
}

}  // namespace farcall::server
