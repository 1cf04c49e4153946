// SPDX-License-Identifier: Apache-2.0
// cuCtxSetLimit: what a context's heap and printf buffer take of the device is charged ahead.
#include "server/state/session.h"

namespace farcall::server {

namespace {

// Owners of such charges: no handles, whose kinds are lower.
enum : uint8_t { kHeapOwner = 0xF0, kPrintfOwner = 0xF1 };

}  // namespace

// Charged as the program sets them, at the largest so far, until the context ends: what a driver
// gives back when one is lowered it does not say. The defaults are the context's, as its code is.
Status Serve_cuCtxSetLimit(ServeCall& call) {
  const auto limit = static_cast<CUlimit>(call.in.Get<int32_t>());
  const auto value = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  if (call.api.cuCtxSetLimit == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  ContextState& context = *call.context;
  uint64_t* charged = limit == CU_LIMIT_MALLOC_HEAP_SIZE   ? &context.heap_bytes
                      : limit == CU_LIMIT_PRINTF_FIFO_SIZE ? &context.printf_bytes
                                                           : nullptr;
  if (charged == nullptr || value <= *charged) {
    call.result = call.api.cuCtxSetLimit(limit, value);
    return {};
  }
  if (context.limit_steps == UINT16_MAX) {  // another charge would have the name of the first
    call.result = CUDA_ERROR_OUT_OF_MEMORY;
    return {};
  }
  // One for each step up: it alone is refunded if the driver refuses it.
  const uint8_t kind = limit == CU_LIMIT_MALLOC_HEAP_SIZE ? kHeapOwner : kPrintfOwner;
  const uint64_t owner =
      MakeHandle(static_cast<HandleKind>(kind), context.slot, ++context.limit_steps);
  DeviceMemory& memory = call.session.memory();
  call.result =
      memory.ChargeObject(context.device, value - *charged, context.slot, owner, &call.detail);
  if (call.result != CUDA_SUCCESS) return {};
  call.result = call.api.cuCtxSetLimit(limit, value);
  if (call.result == CUDA_SUCCESS)
    *charged = value;
  else
    memory.RefundObject(owner);
  return {};
}

}  // namespace farcall::server
