// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/contexts.h"

#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/error_map.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/core/session/routing.h"

namespace farcall::client {

namespace {
constexpr uint32_t kMaxSlots = 65535;  // a record has 16 bits for it
std::atomic<Context*> g_by_slot[kMaxSlots + 1];
std::atomic<uint64_t> g_next_id{1};
}  // namespace

void RecordLateError(Context* context, CUresult error) {
  if (IsSticky(error)) {
    if (!context->sticky.load()) {
      context->late_error.store(error);
      context->sticky.store(true, std::memory_order_release);
    }
    return;
  }
  int none = 0;
  context->late_error.compare_exchange_strong(none, error);
}

Context* NewContext(int ordinal, const Device& device, bool primary, unsigned flags) {
  auto* context = new Context;
  context->session = device.session;
  const ServerScope scope(device.session);
  context->handle = Handles(HandleKind::kContext).New(context, kMaxSlots);
  if (context->handle == 0) {
    delete context;
    return nullptr;
  }
  context->slot = static_cast<uint16_t>(SplitHandle(context->handle).index);
  context->device = ordinal;
  context->server_device = device.server_index;
  context->primary = primary;
  context->flags = flags;
  context->id = g_next_id.fetch_add(1);
  context->alive.store(true);
  NoteContext(context);
  g_by_slot[context->slot].store(context, std::memory_order_release);
  return context;
}

Context* FindContext(CUcontext handle) {
  return FindObject<Context>(HandleKind::kContext, reinterpret_cast<uint64_t>(handle));
}

Context* ContextBySlot(uint16_t slot) {
  return g_by_slot[slot].load(std::memory_order_acquire);
}

void RetireContext(Context* context) {
  context->alive.store(false);
  Handles(HandleKind::kContext).Free(context->handle);
}

}  // namespace farcall::client
