// SPDX-License-Identifier: Apache-2.0
// What cuRAND makes in memory of its own: tables, asked once and kept, and distributions, which the
// program knows by their address on the device. The server's side:
// server/library/library_curand.cc.
#include <curand.h>

#include <map>
#include <mutex>

#include "client-shim/thin/blobs.h"
#include "client-shim/thin/call.h"
#include "client-shim/thin/forked.h"
#include "generated/proto/curand_call.h"

#define CURAND_ENTRY extern "C" __attribute__((visibility("default"))) curandStatus_t

using farcall::curand::Function;
using farcall::curand::kKind_curandDiscreteDistribution_t;
using farcall::thin::Call;

namespace {

// Never freed: the program holds pointers into them.
struct Tables {
  std::mutex mutex;
  std::map<std::pair<Function, int>, std::string> by_name;
};
Tables& TheTables() {
  static auto* tables = new Tables;
  return *tables;
}

struct Distributions {
  std::mutex mutex;
  std::map<curandDiscreteDistribution_t, void*> objects;
};
Distributions& TheDistributions() {
  static auto* distributions = new Distributions;
  return *distributions;
}

// `set`: null for a function that takes none.
template <typename T>
curandStatus_t Table(Function function, const curandDirectionVectorSet_t* set, T** table) {
  if (table == nullptr) return CURAND_STATUS_OUT_OF_RANGE;
  if (farcall::thin::IsForked()) return CURAND_STATUS_INITIALIZATION_FAILED;
  Tables& tables = TheTables();
  std::lock_guard lock(tables.mutex);
  auto [found, is_new] = tables.by_name.try_emplace({function, set == nullptr ? 0 : *set});
  int status = 0;
  if (is_new) {
    Call call(function);
    if (set != nullptr) call.Value(*set);
    farcall::thin::LongAnswer answer;
    answer.Await(call);
    status = call.AskAnywhere();
    if (status == 0) status = answer.Complete();
    // A run of bytes: its length, then the table.
    farcall::Reader in(std::as_bytes(std::span(answer.bytes)));
    std::span<const std::byte> bytes = in.GetBytes();
    if (status == 0 && (!in.Done() || bytes.empty())) status = CURAND_STATUS_INTERNAL_ERROR;
    found->second.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (status != 0) {
    tables.by_name.erase(found);
    return static_cast<curandStatus_t>(status);
  }
  *table = reinterpret_cast<T*>(found->second.data());
  return CURAND_STATUS_SUCCESS;
}

}  // namespace

CURAND_ENTRY curandGetDirectionVectors32(curandDirectionVectors32_t* vectors[],
                                         curandDirectionVectorSet_t set) {
  return Table(Function::curandGetDirectionVectors32, &set, vectors);
}
CURAND_ENTRY curandGetDirectionVectors64(curandDirectionVectors64_t* vectors[],
                                         curandDirectionVectorSet_t set) {
  return Table(Function::curandGetDirectionVectors64, &set, vectors);
}
CURAND_ENTRY curandGetScrambleConstants32(unsigned int** constants) {
  return Table(Function::curandGetScrambleConstants32, nullptr, constants);
}
CURAND_ENTRY curandGetScrambleConstants64(unsigned long long** constants) {
  return Table(Function::curandGetScrambleConstants64, nullptr, constants);
}

CURAND_ENTRY curandCreatePoissonDistribution(double lambda,
                                             curandDiscreteDistribution_t* discrete_distribution) {
  if (discrete_distribution == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  Call call(Function::curandCreatePoissonDistribution);
  void* object = nullptr;
  curandDiscreteDistribution_t made = nullptr;
  call.New(&object, kKind_curandDiscreteDistribution_t);
  call.Value(lambda);
  call.OutValue(&made);
  const int status = call.AskAnywhere();
  if (status != 0) {
    if (object != nullptr)
      farcall::thin::Channel().end_object(static_cast<farcall::client::LibraryObject*>(object));
    return static_cast<curandStatus_t>(status);
  }
  std::lock_guard lock(TheDistributions().mutex);
  TheDistributions().objects[made] = object;
  *discrete_distribution = made;
  return CURAND_STATUS_SUCCESS;
}

CURAND_ENTRY curandDestroyDistribution(curandDiscreteDistribution_t discrete_distribution) {
  if (farcall::thin::IsForked()) return CURAND_STATUS_INITIALIZATION_FAILED;
  void* object = nullptr;
  {
    std::lock_guard lock(TheDistributions().mutex);
    auto found = TheDistributions().objects.find(discrete_distribution);
    if (found == TheDistributions().objects.end()) return CURAND_STATUS_NOT_INITIALIZED;
    object = found->second;
    TheDistributions().objects.erase(found);
  }
  Call call(Function::curandDestroyDistribution);
  call.Object(object, {kKind_curandDiscreteDistribution_t});
  call.End(object);
  return static_cast<curandStatus_t>(call.Run());
}
