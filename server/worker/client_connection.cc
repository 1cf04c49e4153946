// SPDX-License-Identifier: Apache-2.0
#include "server/worker/client_connection.h"

#include "proto/ucx_transport.h"
#include "transport/handshake.h"
#include "transport/shm/shm_channel.h"
#include "transport/tls/tls_channel.h"

namespace farcall::server {

Result<std::unique_ptr<Channel>> TakeConnection(int fd, std::span<const std::byte> state,
                                                size_t ring_bytes) {
  if (!IsRingState(state)) {
    return AdoptChannel(fd, state);
  }
  Result<std::unique_ptr<Channel>> channel = ServeRings(fd, ring_bytes);
  if (!channel.ok()) {
    const Status& why = channel.status();
    (void)SendRefuse(*AdoptSocket(fd), {why.code(), why.message()},
                     Clock::now() + std::chrono::seconds(2));
  }
  return channel;
}

Result<FabricEndPointer> PrepareUcx(const Welcome& welcome, size_t window_bytes) {
  if (!UsesUcx(welcome)) {
    return FabricEndPointer();
  }
  Result<UcxContext*> context = UcxContext::OfProcess();
  Result<FabricEndPointer> end = context.ok() ? MakeUcxEnd(**context, window_bytes)
                                              : Result<FabricEndPointer>(context.status());
  return end.ok() ? std::move(end)
                  : Result<FabricEndPointer>(
                        Status(end.status().code(), "on the server: " + end.status().message()));
}

std::unique_ptr<Channel> GoOn(std::unique_ptr<Channel> channel, FabricEndPointer ucx) {
  return ucx == nullptr ? std::move(channel)
                        : MakeFabricChannel(std::move(channel), std::move(ucx));
}

}  // namespace farcall::server
