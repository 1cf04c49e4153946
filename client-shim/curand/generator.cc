// SPDX-License-Identifier: Apache-2.0
// A generator: its type, dimensions and stream are the client's, so a call is refused here as the
// library refuses it; all that is sent is a post, but for what a generator on the host writes
// there.
#include <curand.h>

#include "client-shim/thin/call.h"
#include "generated/proto/curand_call.h"
#include "proto/library/library_sizes.h"

#define CURAND_ENTRY extern "C" __attribute__((visibility("default"))) curandStatus_t

using farcall::LibraryId;
using farcall::LibraryKind;
using farcall::curand::Function;
using farcall::curand::kKind_curandGenerator_t;
using farcall::thin::Call;
using farcall::thin::Times;

namespace {

constexpr uint16_t kHostGenerator = LibraryKind(LibraryId::kCurand, 2);
constexpr unsigned kMaxDimensions = 20000;
constexpr double kMaxLambda = 400000;

struct Generator final : farcall::thin::State {
  curandRngType_t type = CURAND_RNG_TEST;
  bool is_quasi = false, is_quasi64 = false;
  bool on_host = false;  // it computes there, on no stream
  unsigned dimensions = 1;
};

Generator* Find(curandGenerator_t generator) {
  auto* found = farcall::thin::StateOf<Generator>(generator, kKind_curandGenerator_t);
  return found != nullptr ? found : farcall::thin::StateOf<Generator>(generator, kHostGenerator);
}

bool IsPseudo(curandRngType_t type) {
  switch (type) {
    case CURAND_RNG_PSEUDO_DEFAULT:
    case CURAND_RNG_PSEUDO_XORWOW:
    case CURAND_RNG_PSEUDO_MRG32K3A:
    case CURAND_RNG_PSEUDO_MTGP32:
    case CURAND_RNG_PSEUDO_MT19937:
    case CURAND_RNG_PSEUDO_PHILOX4_32_10:
      return true;
    default:
      return false;
  }
}

bool IsMersenneTwister(curandRngType_t type) {
  return type == CURAND_RNG_PSEUDO_MTGP32 || type == CURAND_RNG_PSEUDO_MT19937;
}

// As cuRAND 10.4 has it: seeded for XORWOW alone, dynamic for all but MT19937.
bool Takes(const Generator& generator, curandOrdering_t order) {
  if (generator.is_quasi) return order == CURAND_ORDERING_QUASI_DEFAULT;
  switch (order) {
    case CURAND_ORDERING_PSEUDO_BEST:
    case CURAND_ORDERING_PSEUDO_DEFAULT:
    case CURAND_ORDERING_PSEUDO_LEGACY:
      return true;
    case CURAND_ORDERING_PSEUDO_SEEDED:
      return generator.type == CURAND_RNG_PSEUDO_DEFAULT ||
             generator.type == CURAND_RNG_PSEUDO_XORWOW;
    case CURAND_ORDERING_PSEUDO_DYNAMIC:
      return generator.type != CURAND_RNG_PSEUDO_MT19937;
    default:
      return false;
  }
}

curandStatus_t Create(Function function, uint16_t kind, curandGenerator_t* generator,
                      curandRngType_t type) {
  const bool is_quasi =
      type >= CURAND_RNG_QUASI_DEFAULT && type <= CURAND_RNG_QUASI_SCRAMBLED_SOBOL64;
  if (!is_quasi && !IsPseudo(type)) return CURAND_STATUS_TYPE_ERROR;
  auto* state = new Generator;
  state->type = type;
  state->is_quasi = is_quasi;
  state->is_quasi64 =
      type == CURAND_RNG_QUASI_SOBOL64 || type == CURAND_RNG_QUASI_SCRAMBLED_SOBOL64;
  state->on_host = kind == kHostGenerator;
  state->is_handle = !state->on_host;
  void* object = nullptr;
  Call call(function);
  call.New(&object, kind, state);
  call.Value(type);
  if (generator == nullptr) call.Refuse(CURAND_STATUS_NOT_INITIALIZED);
  // Some types have no form on the host, which is told at once.
  int status = state->on_host ? call.AskAnywhere() : call.Run();
  if (status == 0 && generator != nullptr) {
    *generator = static_cast<curandGenerator_t>(object);
  } else {
    if (object != nullptr)
      farcall::thin::Channel().end_object(static_cast<farcall::client::LibraryObject*>(object));
    delete state;
  }
  return static_cast<curandStatus_t>(status);
}

template <typename... Values>
curandStatus_t Post(Function function, curandGenerator_t generator, Values... values) {
  Call call(function);
  call.Object(generator, {kKind_curandGenerator_t, kHostGenerator});
  (call.Value(values), ...);
  return static_cast<curandStatus_t>(call.Run());
}

// What a function wants of the generator and the length.
enum class Wants { kAny, kNot64, kOnly64, kPairs };

curandStatus_t Check(const Generator* state, size_t count, Wants wants) {
  if (state == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (wants == Wants::kNot64 && state->is_quasi64) return CURAND_STATUS_TYPE_ERROR;
  if (wants == Wants::kOnly64 && !state->is_quasi64) return CURAND_STATUS_TYPE_ERROR;
  const bool odd = wants == Wants::kPairs && !state->is_quasi && count % 2 != 0;
  if (odd || (state->is_quasi && count % state->dimensions != 0))
    return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return CURAND_STATUS_SUCCESS;
}

template <typename T, typename... Values>
curandStatus_t Generate(Function function, Wants wants, curandGenerator_t generator, T* output,
                        size_t count, Values... values) {
  const Generator* state = Find(generator);
  curandStatus_t status = Check(state, count, wants);
  if (status != CURAND_STATUS_SUCCESS) return status;
  Call call(function);
  // cuRAND 10 has the name of this one and nothing behind it.
  if (output == nullptr || function == Function::curandGeneratePoissonMethod) call.Doubt();
  call.Object(generator, {kKind_curandGenerator_t, kHostGenerator});
  call.Value(count);
  (call.Value(values), ...);
  if (!state->on_host)
    call.Device(output);
  else if (Times(count, sizeof(T)) > farcall::kMaxBlobBytes)
    return CURAND_STATUS_ALLOCATION_FAILED;
  else
    call.Out(output, Times(count, sizeof(T)));
  return static_cast<curandStatus_t>(call.Run());
}

}  // namespace

CURAND_ENTRY curandCreateGenerator(curandGenerator_t* generator, curandRngType_t rng_type) {
  return Create(Function::curandCreateGenerator, kKind_curandGenerator_t, generator, rng_type);
}
CURAND_ENTRY curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t rng_type) {
  return Create(Function::curandCreateGeneratorHost, kHostGenerator, generator, rng_type);
}

CURAND_ENTRY curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
  Generator* state = Find(generator);
  if (state == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  state->stream = stream;
  return CURAND_STATUS_SUCCESS;
}

CURAND_ENTRY curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                                unsigned long long seed) {
  const Generator* state = Find(generator);
  if (state == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (state->is_quasi) return CURAND_STATUS_TYPE_ERROR;
  return Post(Function::curandSetPseudoRandomGeneratorSeed, generator, seed);
}

CURAND_ENTRY curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
  const Generator* state = Find(generator);
  if (state == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (IsMersenneTwister(state->type)) return CURAND_STATUS_TYPE_ERROR;
  return Post(Function::curandSetGeneratorOffset, generator, offset);
}

CURAND_ENTRY curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t order) {
  const Generator* state = Find(generator);
  if (state == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (!Takes(*state, order)) return CURAND_STATUS_OUT_OF_RANGE;
  return Post(Function::curandSetGeneratorOrdering, generator, order);
}

CURAND_ENTRY curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator,
                                                     unsigned int num_dimensions) {
  Generator* state = Find(generator);
  if (state == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (!state->is_quasi) return CURAND_STATUS_TYPE_ERROR;
  if (num_dimensions == 0 || num_dimensions > kMaxDimensions) return CURAND_STATUS_OUT_OF_RANGE;
  state->dimensions = num_dimensions;
  return Post(Function::curandSetQuasiRandomGeneratorDimensions, generator, num_dimensions);
}

CURAND_ENTRY curandGenerateSeeds(curandGenerator_t generator) {
  if (Find(generator) == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  return Post(Function::curandGenerateSeeds, generator);
}

CURAND_ENTRY curandGenerate(curandGenerator_t generator, unsigned int* outputPtr, size_t num) {
  return Generate(Function::curandGenerate, Wants::kNot64, generator, outputPtr, num);
}
CURAND_ENTRY curandGenerateLongLong(curandGenerator_t generator, unsigned long long* outputPtr,
                                    size_t num) {
  return Generate(Function::curandGenerateLongLong, Wants::kOnly64, generator, outputPtr, num);
}
CURAND_ENTRY curandGenerateUniform(curandGenerator_t generator, float* outputPtr, size_t num) {
  return Generate(Function::curandGenerateUniform, Wants::kAny, generator, outputPtr, num);
}
CURAND_ENTRY curandGenerateUniformDouble(curandGenerator_t generator, double* outputPtr,
                                         size_t num) {
  return Generate(Function::curandGenerateUniformDouble, Wants::kAny, generator, outputPtr, num);
}
CURAND_ENTRY curandGenerateNormal(curandGenerator_t generator, float* outputPtr, size_t n,
                                  float mean, float stddev) {
  return Generate(Function::curandGenerateNormal, Wants::kPairs, generator, outputPtr, n, mean,
                  stddev);
}
CURAND_ENTRY curandGenerateNormalDouble(curandGenerator_t generator, double* outputPtr, size_t n,
                                        double mean, double stddev) {
  return Generate(Function::curandGenerateNormalDouble, Wants::kPairs, generator, outputPtr, n,
                  mean, stddev);
}
CURAND_ENTRY curandGenerateLogNormal(curandGenerator_t generator, float* outputPtr, size_t n,
                                     float mean, float stddev) {
  return Generate(Function::curandGenerateLogNormal, Wants::kPairs, generator, outputPtr, n, mean,
                  stddev);
}
CURAND_ENTRY curandGenerateLogNormalDouble(curandGenerator_t generator, double* outputPtr, size_t n,
                                           double mean, double stddev) {
  return Generate(Function::curandGenerateLogNormalDouble, Wants::kPairs, generator, outputPtr, n,
                  mean, stddev);
}
CURAND_ENTRY curandGeneratePoisson(curandGenerator_t generator, unsigned int* outputPtr, size_t n,
                                   double lambda) {
  if (Find(generator) != nullptr && !(lambda > 0 && lambda <= kMaxLambda))
    return CURAND_STATUS_OUT_OF_RANGE;
  return Generate(Function::curandGeneratePoisson, Wants::kAny, generator, outputPtr, n, lambda);
}

CURAND_ENTRY curandGeneratePoissonMethod(curandGenerator_t generator, unsigned int* outputPtr,
                                         size_t n, double lambda, curandMethod_t method) {
  if (Find(generator) != nullptr && !(lambda > 0 && lambda <= kMaxLambda))
    return CURAND_STATUS_OUT_OF_RANGE;
  return Generate(Function::curandGeneratePoissonMethod, Wants::kAny, generator, outputPtr, n,
                  lambda, method);
}

// Of the server's library; without a server there is none.
CURAND_ENTRY curandGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL)
    return CURAND_STATUS_OUT_OF_RANGE;
  int status = farcall::thin::Open();
  if (status != 0) return static_cast<curandStatus_t>(status);
  const int64_t version = farcall::thin::ServerVersion();
  constexpr int kShifts[] = {20, 10, 0};
  *value = static_cast<int>(version >> kShifts[type]) & 1023;
  return CURAND_STATUS_SUCCESS;
}

CURAND_ENTRY curandGetVersion(int* version) {
  if (version == nullptr) return CURAND_STATUS_OUT_OF_RANGE;
  int parts[3] = {};
  for (int i = 0; i < 3; ++i) {
    curandStatus_t status = curandGetProperty(static_cast<libraryPropertyType>(i), &parts[i]);
    if (status != CURAND_STATUS_SUCCESS) return status;
  }
  *version = parts[0] * 1000 + parts[1] * 100 + parts[2];
  return CURAND_STATUS_SUCCESS;
}
