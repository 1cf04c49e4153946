// SPDX-License-Identifier: Apache-2.0
// Peer access is between primary contexts.
#include "client-shim/cudart/device.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

cudaError_t PeerContext(int peer, CUcontext* context) {
  if (peer < 0 || peer >= DeviceCount()) return cudaErrorInvalidDevice;
  if (cudaError_t error = NeedContext(); error != cudaSuccess) return error;
  return PrimaryContext(peer, context);
}

}  // namespace

cudaError_t Call_cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  CUcontext context = nullptr;
  if (cudaError_t error = PeerContext(peer, &context); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuCtxEnablePeerAccess(context, flags));
}

cudaError_t Call_cudaDeviceDisablePeerAccess(int peer) {
  CUcontext context = nullptr;
  if (cudaError_t error = PeerContext(peer, &context); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuCtxDisablePeerAccess(context));
}

}  // namespace farcall::cudart
