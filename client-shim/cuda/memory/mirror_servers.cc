// SPDX-License-Identifier: Apache-2.0
// Host memory that devices of several servers mirror: never stale. What the program wrote goes up
// to each ahead of its work; what a device wrote comes down when its server's work has completed,
// and no other server's device may use the memory before.
#include <array>
#include <atomic>

#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/stream.h"

namespace farcall::client {

namespace {

// By server: Session::records() when all that it had been given was known to have completed.
std::array<std::atomic<uint64_t>, kMaxServers> g_idle_at;

CUresult NotMirroredTwice(const char* why) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    Log(LogLevel::kWarn, "host memory that devices of two servers reach: %s", why);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUdeviceptr mirror_internal::ExposeToAnother(const Allocation& known, CUresult* status) {
  if (known.kind == MemoryKind::kManaged) {
    *status = NotMirroredTwice("managed memory is one server's");
    return 0;
  }
  const bool is_alias = known.mirrored && known.alias != 0;
  const uint64_t address = known.mirrored ? known.base : known.alias;
  *status = MakeMirror(address, known.bytes, is_alias ? known.alias : known.base,
                       MirrorKind::kPinned, -1);
  if (*status != CUDA_SUCCESS) return 0;
  Memory().AddServer(known.base);
  if (known.alias != 0) Memory().AddServer(known.alias);
  return address;
}

void SettleMirror(const Allocation& found) {
  if (!HasSeveralServers()) return;
  const uint8_t here = CurrentServer();
  bool settled = true;
  for (Session* session : Sessions()) {
    const uint8_t server = session->index();
    if (server == here || !IsMirroredBy(found, server) || session->ended() != CUDA_SUCCESS ||
        session->records() == g_idle_at[server].load())
      continue;
    const ServerScope scope(session);
    if (IsKnownIdle(session) && mirror_internal::AskForMore() == CUDA_SUCCESS)
      g_idle_at[server].store(session->records());
    else
      settled = false;
  }
  if (settled) return;
  NotMirroredTwice("the other server's may be writing it: wait for them first");
  Self()->spans = true;
}

}  // namespace farcall::client
