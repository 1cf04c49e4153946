// SPDX-License-Identifier: Apache-2.0
// Peer access: which contexts may reach another's allocations.
#include <mutex>
#include <set>
#include <utility>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/state/across.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct State {
  std::mutex mutex;
  std::set<std::pair<uint64_t, uint64_t>> enabled;  // who may, whose
};
State* g_peers = new State;

}  // namespace

CUresult AskPeerAccess(int server_device) {
  FixedBody<8> body;
  body.Put<int32_t>(server_device);
  return RoundTrip(CallId::cuCtxEnablePeerAccess, body.padded(), nullptr);
}

CUresult Call_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  Context *context = CurrentContext(), *peer = FindContext(peerContext);
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  // cuda.h has INVALID_CONTEXT; this is what NVIDIA's driver answers (580.159).
  if (peer->session != context->session || peer->device == context->device)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  int can = 0;
  CUresult status = Call_cuDeviceCanAccessPeer(&can, context->device, peer->device);
  if (status != CUDA_SUCCESS) return status;
  if (can == 0) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  std::lock_guard lock(g_peers->mutex);
  if (g_peers->enabled.count({context->handle, peer->handle}) != 0)
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  status = AskPeerAccess(peer->server_device);
  if (status == CUDA_SUCCESS) g_peers->enabled.insert({context->handle, peer->handle});
  return status;
}

// What the device could reach it still can: no program may rely on a fault.
CUresult Call_cuCtxDisablePeerAccess(CUcontext peerContext) {
  Context* peer = FindContext(peerContext);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(g_peers->mutex);
  return g_peers->enabled.erase({CurrentContext()->handle, peer->handle}) != 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace farcall::client
