// SPDX-License-Identifier: Apache-2.0
// What a cuBLAS handle holds on the client.
#pragma once

#include <cublas_api.h>

#include "client-shim/thin/handle.h"

namespace farcall::cublas {

struct HandleState final : thin::State {
  // The user's workspace, or the library's own (null), goes when it or the stream has changed:
  // setting a stream resets it.
  void BeforeCall(client::LibraryObject* object) override;

  struct Workspace {
    void* memory = nullptr;
    size_t bytes = 0;
    bool operator==(const Workspace&) const = default;
  };
  Workspace workspace, sent_workspace;
  const void* sent_stream = nullptr;
  const void* sent_thread = nullptr;  // the per-thread stream is another on each
  int failed = 0;                     // of what BeforeCall sent

  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sm_count_target = 0;
  cublasEmulationStrategy_t strategy = CUBLAS_EMULATION_STRATEGY_DEFAULT;
  cudaEmulationSpecialValuesSupport special_values = CUDA_EMULATION_SPECIAL_VALUES_SUPPORT_DEFAULT;
  cudaEmulationMantissaControl mantissa_control = CUDA_EMULATION_MANTISSA_CONTROL_DYNAMIC;
  int max_mantissa_bits = 0;
  int mantissa_bit_offset = 0;
  int* mantissa_bit_count = nullptr;
};

}  // namespace farcall::cublas
