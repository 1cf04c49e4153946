// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's descriptors from the client's: the real ones live as long as the call.
#pragma once

#include <cublasLt.h>

#include "generated/proto/cublaslt_call.h"
#include "proto/library/library_descriptor.h"
#include "server/library/library_call.h"

namespace farcall::server {

inline cublasLtEmulationDesc_t Convert(LibraryCall& call, cublasLtEmulationDescOpaque_t* sent);

namespace cublaslt_internal {

// What an attribute holds. One that is not known might hold an address.
enum class Holds { kValue, kAddress, kUnknown };

inline Holds WhatHolds(const cublasLtMatmulDescOpaque_t*, uint8_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_C_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_AMAX_D_POINTER:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER:
    case CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER:
      return Holds::kAddress;
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
    case CUBLASLT_MATMUL_DESC_TRANSC:
    case CUBLASLT_MATMUL_DESC_FILL_MODE:
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
    case CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE:
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_C_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_D_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE:
      return Holds::kValue;
    default:
      return Holds::kUnknown;
  }
}
inline Holds WhatHolds(const cublasLtEmulationDescOpaque_t*, uint8_t attribute) {
  if (attribute == CUBLASLT_EMULATION_DESC_FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER)
    return Holds::kAddress;
  return attribute < CUBLASLT_EMULATION_DESC_FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER
             ? Holds::kValue
             : Holds::kUnknown;
}
inline Holds WhatHolds(const cublasLtMatrixLayoutOpaque_t*, uint8_t attribute) {
  return attribute <= CUBLASLT_MATRIX_LAYOUT_BATCH_MODE ? Holds::kValue : Holds::kUnknown;
}
inline Holds WhatHolds(const cublasLtMatrixTransformDescOpaque_t*, uint8_t attribute) {
  return attribute <= CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB ? Holds::kValue : Holds::kUnknown;
}
inline Holds WhatHolds(const cublasLtMatmulPreferenceOpaque_t*, uint8_t attribute) {
  return attribute <= CUBLASLT_MATMUL_PREF_IMPL_MASK ? Holds::kValue : Holds::kUnknown;
}

// Whether the library may be told this attribute; if not, the call is refused.
template <typename Real>
bool MaySet(LibraryCall& call, const Real* real, uint8_t attribute, std::byte* value,
            uint8_t bytes) {
  const Holds holds = WhatHolds(real, attribute);
  uint64_t address = 0;
  if (holds == Holds::kAddress && bytes == sizeof(address)) {
    std::memcpy(&address, value, sizeof(address));
    address = call.CheckAddress(address, 1);
    std::memcpy(value, &address, sizeof(address));
  } else if (holds != Holds::kValue) {
    call.status = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return call.status == 0;
}

// A descriptor that goes with scalars says where they are.
inline bool NoteScalars(LibraryCall& call, const std::byte* value, uint8_t bytes) {
  int32_t mode = 0;
  if (bytes != sizeof(mode)) {
    call.status = CUBLAS_STATUS_INVALID_VALUE;
    return false;
  }
  std::memcpy(&mode, value, sizeof(mode));
  const bool is_known = mode >= CUBLASLT_POINTER_MODE_HOST &&
                        mode <= CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
  call.SetScalarsOnDevice(mode != CUBLASLT_POINTER_MODE_HOST,
                          mode == CUBLASLT_POINTER_MODE_DEVICE ||
                              mode == CUBLASLT_POINTER_MODE_DEVICE_VECTOR ||
                              mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO);
  call.status = is_known ? 0 : CUBLAS_STATUS_INVALID_VALUE;
  return is_known;
}
inline bool NoteScalars(LibraryCall& call, const cublasLtMatmulDescOpaque_t*, uint8_t attribute,
                        const std::byte* value, uint8_t bytes) {
  return attribute != CUBLASLT_MATMUL_DESC_POINTER_MODE || NoteScalars(call, value, bytes);
}
inline bool NoteScalars(LibraryCall& call, const cublasLtMatrixTransformDescOpaque_t*,
                        uint8_t attribute, const std::byte* value, uint8_t bytes) {
  return attribute != CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE ||
         NoteScalars(call, value, bytes);
}
inline bool NoteScalars(LibraryCall&, const void*, uint8_t, const std::byte*, uint8_t) {
  return true;
}

// An emulation descriptor comes as its bytes; an address in its place could only be a lie's.
template <typename Setter>
bool SetEmulation(LibraryCall& call, Setter set, cublasLtMatmulDescOpaque_t* real,
                  const std::byte* value, uint8_t bytes) {
  cublasLtEmulationDescOpaque_t sent{};
  cublasLtEmulationDesc_t emulation = nullptr;
  if (bytes == sizeof(emulation)) {
    std::memcpy(&emulation, value, sizeof(emulation));
    if (emulation != nullptr) {
      call.status = CUBLAS_STATUS_INVALID_VALUE;
      return false;
    }
  } else {
    std::memcpy(&sent, value, std::min<size_t>(bytes, sizeof(sent)));
    emulation = Convert(call, &sent);
    if (emulation == nullptr) return false;
  }
  return call.Succeeded(
      set(real, CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, &emulation, sizeof(emulation)));
}

template <typename Setter, typename Real>
bool SetAll(LibraryCall& call, cublaslt::Function name, Real* real,
            const LibraryDescriptor& descriptor) {
  auto set = call.Of<Setter>(static_cast<uint16_t>(name));
  if (set == nullptr) return false;
  return descriptor.Each([&](uint8_t attribute, const uint8_t* value, uint8_t bytes) {
    std::array<std::byte, 256> aligned;
    std::memcpy(aligned.data(), value, bytes);
    if constexpr (std::is_same_v<Real, cublasLtMatmulDescOpaque_t>) {
      if (attribute == CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR)
        return SetEmulation(call, set, real, aligned.data(), bytes);
    }
    if (!MaySet(call, real, attribute, aligned.data(), bytes) ||
        !NoteScalars(call, real, attribute, aligned.data(), bytes))
      return false;
    using Attribute = std::conditional_t<
        std::is_same_v<Real, cublasLtMatmulDescOpaque_t>, cublasLtMatmulDescAttributes_t,
        std::conditional_t<
            std::is_same_v<Real, cublasLtMatrixLayoutOpaque_t>, cublasLtMatrixLayoutAttribute_t,
            std::conditional_t<
                std::is_same_v<Real, cublasLtMatmulPreferenceOpaque_t>,
                cublasLtMatmulPreferenceAttributes_t,
                std::conditional_t<std::is_same_v<Real, cublasLtEmulationDescOpaque_t>,
                                   cublasLtEmulationDescAttributes_t,
                                   cublasLtMatrixTransformDescAttributes_t>>>>;
    call.status = set(real, static_cast<Attribute>(attribute), aligned.data(), bytes);
    return call.status == 0;
  });
}

// The client's bytes, or null with the call refused.
template <typename Real>
bool Accept(LibraryCall& call, const Real* sent) {
  if (sent == nullptr || call.status != 0) return false;
  if (!LibraryDescriptor(const_cast<Real*>(sent), sizeof(Real)).IsOne()) {
    call.status = CUBLAS_STATUS_INVALID_VALUE;
    return false;
  }
  return true;
}

}  // namespace cublaslt_internal

inline cublasLtMatmulDesc_t Convert(LibraryCall& call, cublasLtMatmulDescOpaque_t* sent) {
  using cublaslt::Function;
  call.SetScalarsOnDevice(false, false);
  if (!cublaslt_internal::Accept(call, sent)) return nullptr;
  LibraryDescriptor descriptor(sent, sizeof(*sent));
  auto init = call.Of<decltype(&::cublasLtMatmulDescInit_internal)>(
      static_cast<uint16_t>(Function::cublasLtMatmulDescInit_internal));
  auto* real = call.Scratch<cublasLtMatmulDescOpaque_t>();
  if (init == nullptr ||
      !call.Succeeded(init(real, sizeof(*real),
                           descriptor.Value(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F),
                           descriptor.Value(CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_R_32F))) ||
      !cublaslt_internal::SetAll<decltype(&::cublasLtMatmulDescSetAttribute)>(
          call, Function::cublasLtMatmulDescSetAttribute, real, descriptor))
    return nullptr;
  return real;
}

inline cublasLtEmulationDesc_t Convert(LibraryCall& call, cublasLtEmulationDescOpaque_t* sent) {
  using cublaslt::Function;
  if (!cublaslt_internal::Accept(call, sent)) return nullptr;
  auto init = call.Of<decltype(&::cublasLtEmulationDescInit_internal)>(
      static_cast<uint16_t>(Function::cublasLtEmulationDescInit_internal));
  auto* real = call.Scratch<cublasLtEmulationDescOpaque_t>();
  if (init == nullptr || !call.Succeeded(init(real, sizeof(*real))) ||
      !cublaslt_internal::SetAll<decltype(&::cublasLtEmulationDescSetAttribute)>(
          call, Function::cublasLtEmulationDescSetAttribute, real,
          LibraryDescriptor(sent, sizeof(*sent))))
    return nullptr;
  return real;
}

inline cublasLtMatrixLayout_t Convert(LibraryCall& call, cublasLtMatrixLayoutOpaque_t* sent) {
  using cublaslt::Function;
  if (!cublaslt_internal::Accept(call, sent)) return nullptr;
  LibraryDescriptor descriptor(sent, sizeof(*sent));
  auto init = call.Of<decltype(&::cublasLtMatrixLayoutInit_internal)>(
      static_cast<uint16_t>(Function::cublasLtMatrixLayoutInit_internal));
  auto* real = call.Scratch<cublasLtMatrixLayoutOpaque_t>();
  if (init == nullptr ||
      !call.Succeeded(init(real, sizeof(*real),
                           descriptor.Value(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_32F),
                           descriptor.Value(CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t{0}),
                           descriptor.Value(CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t{0}),
                           descriptor.Value(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{0}))) ||
      !cublaslt_internal::SetAll<decltype(&::cublasLtMatrixLayoutSetAttribute)>(
          call, Function::cublasLtMatrixLayoutSetAttribute, real, descriptor))
    return nullptr;
  return real;
}

inline cublasLtMatrixTransformDesc_t Convert(LibraryCall& call,
                                             cublasLtMatrixTransformDescOpaque_t* sent) {
  using cublaslt::Function;
  call.SetScalarsOnDevice(false, false);
  if (!cublaslt_internal::Accept(call, sent)) return nullptr;
  LibraryDescriptor descriptor(sent, sizeof(*sent));
  auto init = call.Of<decltype(&::cublasLtMatrixTransformDescInit_internal)>(
      static_cast<uint16_t>(Function::cublasLtMatrixTransformDescInit_internal));
  auto* real = call.Scratch<cublasLtMatrixTransformDescOpaque_t>();
  if (init == nullptr ||
      !call.Succeeded(
          init(real, sizeof(*real),
               descriptor.Value(CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, CUDA_R_32F))) ||
      !cublaslt_internal::SetAll<decltype(&::cublasLtMatrixTransformDescSetAttribute)>(
          call, Function::cublasLtMatrixTransformDescSetAttribute, real, descriptor))
    return nullptr;
  return real;
}

inline cublasLtMatmulPreference_t Convert(LibraryCall& call,
                                          cublasLtMatmulPreferenceOpaque_t* sent) {
  using cublaslt::Function;
  if (!cublaslt_internal::Accept(call, sent)) return nullptr;
  LibraryDescriptor descriptor(sent, sizeof(*sent));
  auto init = call.Of<decltype(&::cublasLtMatmulPreferenceInit_internal)>(
      static_cast<uint16_t>(Function::cublasLtMatmulPreferenceInit_internal));
  auto* real = call.Scratch<cublasLtMatmulPreferenceOpaque_t>();
  if (init == nullptr || !call.Succeeded(init(real, sizeof(*real))) ||
      !cublaslt_internal::SetAll<decltype(&::cublasLtMatmulPreferenceSetAttribute)>(
          call, Function::cublasLtMatmulPreferenceSetAttribute, real, descriptor))
    return nullptr;
  return real;
}

}  // namespace farcall::server
