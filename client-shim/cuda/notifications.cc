// SPDX-License-Identifier: Apache-2.0
// Asynchronous notifications: the one kind there is tells of a memory budget that was exceeded. A
// vGPU's quota refuses what would exceed it, so those who registered have nothing to hear yet.
#include <map>
#include <mutex>

#include "client-shim/core/session/devices.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct State {
  std::mutex mutex;
  uintptr_t last = 0;
  std::map<uintptr_t, CUdevice> registered;
};
State* g_notifications = new State;

}  // namespace

CUresult Call_cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                                void*, CUasyncCallbackHandle* callback) {
  if (FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (callbackFunc == nullptr || callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_notifications->mutex);
  uintptr_t id = ++g_notifications->last;
  g_notifications->registered[id] = device;
  *callback = reinterpret_cast<CUasyncCallbackHandle>(id);
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback) {
  if (FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(g_notifications->mutex);
  auto found = g_notifications->registered.find(reinterpret_cast<uintptr_t>(callback));
  if (found == g_notifications->registered.end() || found->second != device)
    return CUDA_ERROR_INVALID_VALUE;
  g_notifications->registered.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
