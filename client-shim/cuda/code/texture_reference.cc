// SPDX-License-Identifier: Apache-2.0
// Texture references, of programs built before CUDA 12: the driver keeps their settings, what names
// our handles is kept here.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>

#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/objects/array.h"
#include "client-shim/cuda/state/module.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct Reference {
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  std::array<float, 4> border{};
};

struct References {
  std::mutex mutex;
  std::map<uint64_t, Reference> all;  // textures and surfaces: handles of different kinds
};
References* g_references = new References;

bool IsTexture(CUtexref reference) {
  return CheckHandle(HandleKind::kTexObject, reinterpret_cast<uint64_t>(reference));
}
bool IsSurface(CUsurfref reference) {
  return CheckHandle(HandleKind::kSurfObject, reinterpret_cast<uint64_t>(reference));
}

template <typename Handle, typename Change>
void Remember(Handle handle, Change change) {
  std::lock_guard lock(g_references->mutex);
  change(g_references->all[reinterpret_cast<uint64_t>(handle)]);
}

template <typename Handle>
Reference Recall(Handle handle) {
  std::lock_guard lock(g_references->mutex);
  auto found = g_references->all.find(reinterpret_cast<uint64_t>(handle));
  return found == g_references->all.end() ? Reference() : found->second;
}

}  // namespace

CUresult Call_cuTexRefDestroy(CUtexref hTexRef) {
  if (!IsTexture(hTexRef)) return CUDA_ERROR_INVALID_VALUE;
  {
    std::lock_guard lock(g_references->mutex);
    g_references->all.erase(reinterpret_cast<uint64_t>(hTexRef));
  }
  return RoundTrip_cuTexRefDestroy(hTexRef);
}

CUresult Call_cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags) {
  if (Flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = RoundTrip_cuTexRefSetArray(hTexRef, hArray, Flags);
  if (status != CUDA_SUCCESS) return status;
  Remember(hTexRef, [hArray](Reference& reference) {
    reference.array = hArray;
    reference.mipmap = nullptr;
  });
  return CUDA_SUCCESS;
}

CUresult Call_cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
                                        unsigned int Flags) {
  if (Flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = RoundTrip_cuTexRefSetMipmappedArray(hTexRef, hMipmappedArray, Flags);
  if (status != CUDA_SUCCESS) return status;
  Remember(hTexRef, [hMipmappedArray](Reference& reference) {
    reference.array = nullptr;
    reference.mipmap = hMipmappedArray;
  });
  return CUDA_SUCCESS;
}

CUresult Call_cuTexRefGetArray(CUarray* phArray, CUtexref hTexRef) {
  if (phArray == nullptr || !IsTexture(hTexRef)) return CUDA_ERROR_INVALID_VALUE;
  CUarray array = Recall(hTexRef).array;
  if (FindArray(array) == nullptr) return CUDA_ERROR_INVALID_VALUE;  // none is bound
  *phArray = array;
  return CUDA_SUCCESS;
}

CUresult Call_cuTexRefGetMipmappedArray(CUmipmappedArray* phMipmappedArray, CUtexref hTexRef) {
  if (phMipmappedArray == nullptr || !IsTexture(hTexRef)) return CUDA_ERROR_INVALID_VALUE;
  CUmipmappedArray array = Recall(hTexRef).mipmap;
  if (FindMipmappedArray(array) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *phMipmappedArray = array;
  return CUDA_SUCCESS;
}

CUresult Call_cuTexRefSetBorderColor(CUtexref hTexRef, float* pBorderColor) {
  if (pBorderColor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = RoundTrip_cuTexRefSetBorderColor(hTexRef, pBorderColor);
  if (status != CUDA_SUCCESS) return status;
  Remember(hTexRef, [pBorderColor](Reference& reference) {
    std::copy_n(pBorderColor, 4, reference.border.begin());
  });
  return CUDA_SUCCESS;
}

CUresult Call_cuTexRefGetBorderColor(float* pBorderColor, CUtexref hTexRef) {
  if (pBorderColor == nullptr || !IsTexture(hTexRef)) return CUDA_ERROR_INVALID_VALUE;
  std::array<float, 4> border = Recall(hTexRef).border;
  std::copy(border.begin(), border.end(), pBorderColor);
  return CUDA_SUCCESS;
}

CUresult Call_cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags) {
  CUresult status = RoundTrip_cuSurfRefSetArray(hSurfRef, hArray, Flags);
  if (status != CUDA_SUCCESS) return status;
  Remember(hSurfRef, [hArray](Reference& reference) { reference.array = hArray; });
  return CUDA_SUCCESS;
}

CUresult Call_cuSurfRefGetArray(CUarray* phArray, CUsurfref hSurfRef) {
  if (phArray == nullptr || !IsSurface(hSurfRef)) return CUDA_ERROR_INVALID_VALUE;
  CUarray array = Recall(hSurfRef).array;
  if (FindArray(array) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *phArray = array;
  return CUDA_SUCCESS;
}

// A module's references are bound to it when the program is built; this says nothing that is not
// known.
CUresult Call_cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef) {
  if (FindFunction(reinterpret_cast<uint64_t>(hfunc)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return texunit == CU_PARAM_TR_DEFAULT && IsTexture(hTexRef) ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
}

// ---- Addresses of 32 bits

CUresult Call_cuTexRefSetAddress(unsigned int* ByteOffset, CUtexref hTexRef, CUdeviceptr_v1 dptr,
                                 unsigned int bytes) {
  size_t offset = 0;
  CUresult status = RoundTrip_cuTexRefSetAddress_v2(&offset, hTexRef, dptr, bytes);
  if (status == CUDA_SUCCESS && ByteOffset != nullptr) *ByteOffset = static_cast<unsigned>(offset);
  return status;
}

CUresult Call_cuTexRefSetAddress2D(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR_v1* desc,
                                   CUdeviceptr_v1 dptr, unsigned int Pitch) {
  if (desc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY_DESCRIPTOR wide = {desc->Width, desc->Height, desc->Format, desc->NumChannels};
  return RoundTrip_cuTexRefSetAddress2D_v3(hTexRef, &wide, dptr, Pitch);
}

CUresult Call_cuTexRefGetAddress(CUdeviceptr_v1* pdptr, CUtexref hTexRef) {
  CUdeviceptr address = 0;
  if (pdptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = RoundTrip_cuTexRefGetAddress_v2(&address, hTexRef);
  if (status != CUDA_SUCCESS) return status;
  if (address > std::numeric_limits<unsigned>::max()) return CUDA_ERROR_INVALID_VALUE;
  *pdptr = static_cast<CUdeviceptr_v1>(address);
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
