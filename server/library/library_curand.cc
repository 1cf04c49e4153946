// SPDX-License-Identifier: Apache-2.0
// cuRAND's functions whose results are the library's own memory, and its generators on the host
// (the client's side: client-shim/curand/).
#include <curand.h>

#include "proto/curand_call.h"
#include "server/toolchain/toolchain.h"

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
  if (call.status == 0 && table == nullptr) {
    call.status = CURAND_STATUS_INTERNAL_ERROR;
  }
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

}  // namespace

void Serve_curandCreateGeneratorHost(LibraryCall& call) {
  call.NewObject(kHostGenerator);
  auto type = call.Value<curandRngType_t>();
  auto create =
      Of<decltype(&::curandCreateGeneratorHost)>(call, Function::curandCreateGeneratorHost);
  if (!call.Ready()) {
    return;
  }
  curandGenerator_t made = nullptr;
  const int status = create(&made, type);
  call.Made(made, status);
}

void Serve_curandCreatePoissonDistribution(LibraryCall& call) {
  call.NewObject(kKind_curandDiscreteDistribution_t);
  auto lambda = call.Value<double>();
  auto create = Of<decltype(&::curandCreatePoissonDistribution)>(
      call, Function::curandCreatePoissonDistribution);
  curandDiscreteDistribution_t made = nullptr;
  if (call.Ready()) {
    const int status = create(lambda, &made);
    call.Made(made, status);
  }
  call.PutOutput(&made, sizeof(made));
}

void Serve_curandDestroyDistribution(LibraryCall& call) {
  auto distribution =
      call.Object<curandDiscreteDistribution_t>({kKind_curandDiscreteDistribution_t});
  auto destroy =
      Of<decltype(&::curandDestroyDistribution)>(call, Function::curandDestroyDistribution);
  if (!call.Ready()) {
    return;
  }
  call.status = destroy(distribution);
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
