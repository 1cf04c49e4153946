// SPDX-License-Identifier: Apache-2.0
// What cuFFT has for several devices and for callbacks, as far as one device goes.
#include <cufft.h>
#include <cufftXt.h>

#include "client-shim/thin/call.h"
#include "generated/proto/cufft_call.h"

#define CUFFT_ENTRY extern "C" __attribute__((visibility("default"))) cufftResult

using farcall::cufft::Function;
using farcall::cufft::kKind_cufftHandle;
using farcall::thin::Call;

// The library has its word on none and on one, which are no list for it.
CUFFT_ENTRY cufftXtSetGPUs(cufftHandle plan, int count, int* devices) {
  if (count > 1)
    return static_cast<cufftResult>(farcall::thin::Refuse("cufftXtSetGPUs for several"));
  Call call(Function::cufftXtSetGPUs);
  call.Object(plan, {kKind_cufftHandle});
  call.Value(count);
  call.In(devices, count == 1 ? sizeof(int) : 0);
  return static_cast<cufftResult>(call.Ask());
}

CUFFT_ENTRY cufftXtSetJITCallback(cufftHandle plan, const char* symbol, const void* code,
                                  size_t bytes, cufftXtCallbackType type, void** caller_info) {
  Call call(Function::cufftXtSetJITCallback);
  call.Object(plan, {kKind_cufftHandle});
  call.Value(static_cast<uint64_t>(bytes));
  call.Value(type);
  call.String(symbol);
  call.In(code, bytes);
  call.In(caller_info, sizeof(void*));
  return static_cast<cufftResult>(call.Ask());
}

// Callbacks in machine code are for programs linked to the static library: the shared one answers
// this, whatever the plan.
CUFFT_ENTRY cufftXtSetCallback(cufftHandle, void**, cufftXtCallbackType, void**) {
  return CUFFT_NOT_IMPLEMENTED;
}

CUFFT_ENTRY cufftXtClearCallback(cufftHandle, cufftXtCallbackType) {
  return CUFFT_NOT_IMPLEMENTED;
}

// Of a callback that no plan has.
CUFFT_ENTRY cufftXtSetCallbackSharedSize(cufftHandle, cufftXtCallbackType, size_t) {
  return CUFFT_INVALID_PLAN;
}
