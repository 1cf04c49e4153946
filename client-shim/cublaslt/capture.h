// SPDX-License-Identifier: Apache-2.0
// How a descriptor goes into a record: its bytes as they are. A matmul descriptor holds the address
// of an emulation descriptor; what lies there by the call goes in its place.
#pragma once

#include <cublasLt.h>

#include "client-shim/thin/call.h"
#include "proto/library/library_descriptor.h"

namespace farcall::thin {

template <typename Opaque>
void Capture(Call& call, const Opaque* descriptor) {
  call.In(descriptor, sizeof(*descriptor));
}

inline void Capture(Call& call, cublasLtMatmulDesc_t descriptor) {
  constexpr uint8_t kEmulation = CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR;
  if (descriptor == nullptr) return call.In(nullptr, 0);
  LibraryDescriptor sent(descriptor, sizeof(*descriptor));
  cublasLtEmulationDesc_t emulation =
      sent.IsOne() ? sent.Value<cublasLtEmulationDesc_t>(kEmulation, nullptr) : nullptr;
  if (emulation == nullptr) [[likely]]
    return call.In(descriptor, sizeof(*descriptor));
  LibraryDescriptor inner(emulation, sizeof(*emulation));
  cublasLtMatmulDescOpaque_t whole;
  if (!inner.IsOne()) return call.Refuse(CUBLAS_STATUS_INVALID_VALUE);
  if (!sent.CopyWith(kEmulation, inner, LibraryDescriptor(&whole, sizeof(whole))))
    return call.Refuse(CUBLAS_STATUS_NOT_SUPPORTED);  // no room
  call.In(&whole, sizeof(whole));
}

}  // namespace farcall::thin
