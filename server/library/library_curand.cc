// SPDX-License-Identifier: Apache-2.0
// cuRAND's functions whose results are the library's own memory, and its generators on the host
// (the client's side: client-shim/curand/).
#include <curand.h>
#include <curand_discrete.h>

#include <bit>
#include <cstddef>

#include "generated/proto/curand_call.h"
#include "server/library/library_loader.h"
#include "server/library/library_text.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

using curand::Function;
using curand::kKind_curandDiscreteDistribution_t;

constexpr uint16_t kHostGenerator = LibraryKind(LibraryId::kCurand, 2);
constexpr size_t kDimensions = 20000;  // of each table, as curand.h has it

template <typename T>
T Of(LibraryCall& call, Function function) {
  return call.Of<T>(static_cast<uint16_t>(function));
}

void AnswerTable(LibraryCall& call, const void* table, size_t bytes) {
  if (call.status == 0 && table == nullptr) call.status = CURAND_STATUS_INTERNAL_ERROR;
  if (call.status == 0) {
    Builder answer;
    answer.PutBytes(table, bytes);
    AnswerWith(call, answer);
  }
}

template <typename Vectors, typename Get>
void AnswerVectors(LibraryCall& call, Function function) {
  auto set = call.Value<curandDirectionVectorSet_t>();
  auto get = Of<Get>(call, function);
  if (call.Ready()) {
    Vectors* vectors = nullptr;
    call.status = get(&vectors, set);
    AnswerTable(call, vectors, kDimensions * sizeof(Vectors));
  }
  AnswerFailure(call);
}

template <typename Constant, typename Get>
void AnswerConstants(LibraryCall& call, Function function) {
  auto get = Of<Get>(call, function);
  if (call.Ready()) {
    Constant* constants = nullptr;
    call.status = get(&constants);
    AnswerTable(call, constants, kDimensions * sizeof(Constant));
  }
  AnswerFailure(call);
}

// Reads a struct on the device; every address in it is checked before it is followed.
template <typename T>
bool Read(LibraryCall& call, const void* at, T* to) {
  const auto address = reinterpret_cast<CUdeviceptr>(at);
  return call.base().session.MayReach(address, sizeof(T)) &&
         call.base().api.cuMemcpyDtoH_v2(to, address, sizeof(T)) == CUDA_SUCCESS;
}
bool Wipe(LibraryCall& call, const void* at, size_t offset) {
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(at) + offset;
  return call.base().api.cuMemsetD8_v2(address, 0, sizeof(void*)) == CUDA_SUCCESS;
}

// False: the distribution is not what curand_discrete.h says.
bool HostForgotten(LibraryCall& call, curandDiscreteDistribution_t distribution) {
  curandDiscreteDistribution_st outer{};
  curandDistributionM2Shift_st shift{};
  curandHistogramM2_st histogram{};
  return Read(call, distribution, &outer) && Read(call, outer.M2, &shift) &&
         Read(call, shift.histogram, &histogram) &&
         Wipe(call, distribution, offsetof(curandDiscreteDistribution_st, self_host_ptr)) &&
         Wipe(call, distribution, offsetof(curandDiscreteDistribution_st, host_M2)) &&
         Wipe(call, outer.M2, offsetof(curandDistributionM2Shift_st, host_histogram)) &&
         Wipe(call, shift.histogram, offsetof(curandHistogramM2_st, host_V)) &&
         Wipe(call, shift.histogram, offsetof(curandHistogramM2_st, host_K));
}

}  // namespace

void Serve_curandCreateGeneratorHost(LibraryCall& call) {
  call.NewObject(kHostGenerator);
  auto type = call.Value<curandRngType_t>();
  auto create =
      Of<decltype(&::curandCreateGeneratorHost)>(call, Function::curandCreateGeneratorHost);
  if (!call.Ready()) return;
  curandGenerator_t made = nullptr;
  const int status = create(&made, type);
  call.Made(made, status);
}

// What kernels use lies on the device, the session's own as all that they write, and names memory
// of this process beside it. A program may read that and may change what the library would then
// free: the names are wiped, and the library is never given the distribution again.
void Serve_curandCreatePoissonDistribution(LibraryCall& call) {
  call.NewObject(kKind_curandDiscreteDistribution_t);
  auto lambda = call.Value<double>();
  auto create = Of<decltype(&::curandCreatePoissonDistribution)>(
      call, Function::curandCreatePoissonDistribution);
  curandDiscreteDistribution_t made = nullptr;
  if (call.Ready()) {
    const CUcontext context = call.base().context->native;
    void* spare = call.loader().TakeSpare(context, std::bit_cast<uint64_t>(lambda));
    int status = CURAND_STATUS_SUCCESS;
    if (spare != nullptr) {
      made = static_cast<curandDiscreteDistribution_t>(spare);
    } else {
      status = create(lambda, &made);
      if (status == CURAND_STATUS_SUCCESS && !HostForgotten(call, made)) {
        status = CURAND_STATUS_INTERNAL_ERROR;
        made = nullptr;
      }
    }
    call.Made(made, status, static_cast<int64_t>(std::bit_cast<uint64_t>(lambda)));
  }
  call.PutOutput(&made, sizeof(made));
}

void Serve_curandDestroyDistribution(LibraryCall& call) {
  auto distribution =
      call.Object<curandDiscreteDistribution_t>({kKind_curandDiscreteDistribution_t});
  LibraryObject* object = call.last_object();
  if (!call.Ready()) return;
  call.loader().PutSpare(object->context, static_cast<uint64_t>(object->notes[0]), distribution);
  call.EndObject();
}

void Serve_curandGetDirectionVectors32(LibraryCall& call) {
  AnswerVectors<curandDirectionVectors32_t, decltype(&::curandGetDirectionVectors32)>(
      call, Function::curandGetDirectionVectors32);
}
void Serve_curandGetDirectionVectors64(LibraryCall& call) {
  AnswerVectors<curandDirectionVectors64_t, decltype(&::curandGetDirectionVectors64)>(
      call, Function::curandGetDirectionVectors64);
}
void Serve_curandGetScrambleConstants32(LibraryCall& call) {
  AnswerConstants<unsigned int, decltype(&::curandGetScrambleConstants32)>(
      call, Function::curandGetScrambleConstants32);
}
void Serve_curandGetScrambleConstants64(LibraryCall& call) {
  AnswerConstants<unsigned long long, decltype(&::curandGetScrambleConstants64)>(
      call, Function::curandGetScrambleConstants64);
}

}  // namespace farcall::server
