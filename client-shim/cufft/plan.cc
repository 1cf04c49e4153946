// SPDX-License-Identifier: Apache-2.0
// A plan's life and its stream. Filling a plan waits, since that says whether its sizes are
// possible and how much memory it wants; executing it is a post.
#include <cufft.h>
#include <cufftXt.h>

#include "client-shim/thin/call.h"
#include "client-shim/thin/numbers.h"
#include "generated/proto/cufft_call.h"

#define CUFFT_ENTRY extern "C" __attribute__((visibility("default"))) cufftResult

using farcall::cufft::Function;
using farcall::cufft::kKind_cufftHandle;
using farcall::thin::Call;
using farcall::thin::State;

namespace {

State* Find(cufftHandle plan) {
  return farcall::thin::StateOf<State>(farcall::thin::ObjectOfNumber(plan), kKind_cufftHandle);
}

// A plan made by `fill`, or none.
template <typename Fill>
cufftResult Make(cufftHandle* plan, Fill fill) {
  cufftHandle made = 0;
  cufftResult status = cufftCreate(&made);
  if (status != CUFFT_SUCCESS) return status;
  size_t work_bytes = 0;
  status = fill(made, &work_bytes);
  if (status != CUFFT_SUCCESS) {
    cufftDestroy(made);
    return status;
  }
  *plan = made;
  return CUFFT_SUCCESS;
}

}  // namespace

CUFFT_ENTRY cufftCreate(cufftHandle* handle) {
  if (handle == nullptr) return CUFFT_INVALID_VALUE;
  auto* state = new State;
  void* object = nullptr;
  Call call(Function::cufftCreate);
  call.New(&object, kKind_cufftHandle, state);
  int status = call.Run();
  if (status != 0) {
    delete state;
    return static_cast<cufftResult>(status);
  }
  const int number = farcall::thin::TakeNumber(object);
  if (number == 0) {
    Call end(Function::cufftDestroy);
    end.Object(object, {kKind_cufftHandle});
    end.End(object);
    end.Run();
    return CUFFT_ALLOC_FAILED;
  }
  *handle = number;
  return CUFFT_SUCCESS;
}

CUFFT_ENTRY cufftDestroy(cufftHandle plan) {
  const void* object = farcall::thin::ObjectOfNumber(plan);
  Call call(Function::cufftDestroy);
  call.Object(object, {kKind_cufftHandle});
  call.End(object);
  int status = call.Run();
  if (status != CUFFT_INVALID_PLAN) farcall::thin::FreeNumber(plan);
  return static_cast<cufftResult>(status);
}

CUFFT_ENTRY cufftSetStream(cufftHandle plan, cudaStream_t stream) {
  State* state = Find(plan);
  if (state == nullptr) return CUFFT_INVALID_PLAN;
  state->stream = stream;
  return CUFFT_SUCCESS;
}

CUFFT_ENTRY cufftPlan1d(cufftHandle* plan, int nx, cufftType type, int batch) {
  if (plan == nullptr) return CUFFT_INVALID_VALUE;
  return Make(plan, [&](cufftHandle made, size_t* bytes) {
    return cufftMakePlan1d(made, nx, type, batch, bytes);
  });
}

CUFFT_ENTRY cufftPlan2d(cufftHandle* plan, int nx, int ny, cufftType type) {
  if (plan == nullptr) return CUFFT_INVALID_VALUE;
  return Make(plan, [&](cufftHandle made, size_t* bytes) {
    return cufftMakePlan2d(made, nx, ny, type, bytes);
  });
}

CUFFT_ENTRY cufftPlan3d(cufftHandle* plan, int nx, int ny, int nz, cufftType type) {
  if (plan == nullptr) return CUFFT_INVALID_VALUE;
  return Make(plan, [&](cufftHandle made, size_t* bytes) {
    return cufftMakePlan3d(made, nx, ny, nz, type, bytes);
  });
}

CUFFT_ENTRY cufftPlanMany(cufftHandle* plan, int rank, int* n, int* inembed, int istride, int idist,
                          int* onembed, int ostride, int odist, cufftType type, int batch) {
  if (plan == nullptr) return CUFFT_INVALID_VALUE;
  return Make(plan, [&](cufftHandle made, size_t* bytes) {
    return cufftMakePlanMany(made, rank, n, inembed, istride, idist, onembed, ostride, odist, type,
                             batch, bytes);
  });
}

// Of the server's library; without a server there is none.
CUFFT_ENTRY cufftGetProperty(libraryPropertyType type, int* value) {
  if (type < MAJOR_VERSION || type > PATCH_LEVEL) return CUFFT_INVALID_TYPE;
  if (value == nullptr) return CUFFT_INVALID_VALUE;
  int status = farcall::thin::Open();
  if (status != 0) return static_cast<cufftResult>(status);
  constexpr int kShifts[] = {20, 10, 0};
  *value = static_cast<int>(farcall::thin::ServerVersion() >> kShifts[type]) & 1023;
  return CUFFT_SUCCESS;
}

CUFFT_ENTRY cufftGetVersion(int* version) {
  if (version == nullptr) return CUFFT_SUCCESS;  // as NVIDIA's
  int parts[3] = {};
  for (int i = 0; i < 3; ++i) {
    cufftResult status = cufftGetProperty(static_cast<libraryPropertyType>(i), &parts[i]);
    if (status != CUFFT_SUCCESS) return status;
  }
  *version = parts[0] * 1000 + parts[1] * 100 + parts[2];
  return CUFFT_SUCCESS;
}
