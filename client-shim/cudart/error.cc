// SPDX-License-Identifier: Apache-2.0
// The thread's last error, and what errors are called.
#include <algorithm>
#include <iterator>

#include "client-shim/cudart/thread.h"

namespace farcall::cudart {
namespace {

struct ErrorText {
  int value;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
#include "generated/cudart/error_names.inc"
};

constexpr const char* kUnknown = "unrecognized error code";

const ErrorText* Find(cudaError_t error) {
  auto found = std::lower_bound(std::begin(kErrors), std::end(kErrors), static_cast<int>(error),
                                [](const ErrorText& row, int value) { return row.value < value; });
  return found != std::end(kErrors) && found->value == error ? found : nullptr;
}

}  // namespace
}  // namespace farcall::cudart

using namespace farcall::cudart;

#define CUDART_EXPORT extern "C" __attribute__((visibility("default")))

CUDART_EXPORT cudaError_t cudaGetLastError() {
  cudaError_t error = t_thread.last;
  t_thread.last = cudaSuccess;
  return error;
}

CUDART_EXPORT cudaError_t cudaPeekAtLastError() {
  return t_thread.last;
}

CUDART_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* found = Find(error);
  return found != nullptr ? found->name : kUnknown;
}

CUDART_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* found = Find(error);
  return found != nullptr ? found->text : kUnknown;
}
