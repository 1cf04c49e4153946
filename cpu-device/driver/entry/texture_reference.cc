// SPDX-License-Identifier: Apache-2.0
// Texture references: settings that nothing reads, as no PTX of CUDA 12 or later names one.
#include <algorithm>
#include <memory>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/registry.h"
#include "cpu-device/driver/memory/array.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

struct TextureReference {
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  CUdeviceptr address = 0;
  CUaddress_mode addressing[3] = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP,
                                  CU_TR_ADDRESS_MODE_CLAMP};
  CUfilter_mode filter = CU_TR_FILTER_MODE_POINT, mip_filter = CU_TR_FILTER_MODE_POINT;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  int channels = 1;
  unsigned flags = 0, anisotropy = 0;
  float bias = 0, least = 0, most = 0;
  float border[4] = {};
};

Registry<TextureReference>& References() {
  static auto* references = new Registry<TextureReference>;
  return *references;
}

CUresult Find(CUtexref handle, std::shared_ptr<TextureReference>* reference) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *reference = References().Find(handle);
  return *reference == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

template <typename T, typename Value>
CUresult Set(CUtexref handle, T TextureReference::*member, Value value, bool valid = true) {
  std::shared_ptr<TextureReference> reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  (*reference).*member = value;
  return CUDA_SUCCESS;
}

template <typename T, typename Out>
CUresult Get(CUtexref handle, T TextureReference::*member, Out* out) {
  std::shared_ptr<TextureReference> reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = (*reference).*member;
  return CUDA_SUCCESS;
}

// No module has one of that name, or of any.
CUresult NoReference(const void* out, CUmodule handle, const char* name) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return TheDriver().modules.Find(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                                     : CUDA_ERROR_NOT_FOUND;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;
using Reference = std::shared_ptr<TextureReference>;

extern "C" {

CUresult cuModuleGetTexRef(CUtexref* out, CUmodule module, const char* name) {
  return NoReference(out, module, name);
}
CUresult cuModuleGetSurfRef(CUsurfref* out, CUmodule module, const char* name) {
  return NoReference(out, module, name);
}

CUresult cuTexRefCreate(CUtexref* out) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto reference = std::make_shared<TextureReference>();
  *out = reinterpret_cast<CUtexref>(reference.get());
  References().Add(std::move(reference));
  return CUDA_SUCCESS;
}

CUresult cuTexRefDestroy(CUtexref handle) {
  if (const CUresult result = CheckInitialized()) return result;
  return References().Take(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuTexRefSetArray(CUtexref handle, CUarray array, unsigned int flags) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  const auto found = Arrays().Find(array);
  if (found == nullptr || flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
  reference->array = array;
  reference->mipmap = nullptr;
  reference->address = 0;
  reference->format = found->shape.Format;
  reference->channels = static_cast<int>(found->shape.NumChannels);
  return CUDA_SUCCESS;
}

CUresult cuTexRefSetMipmappedArray(CUtexref handle, CUmipmappedArray mipmap, unsigned int flags) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  const auto found = Mipmaps().Find(mipmap);
  if (found == nullptr || flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
  reference->array = nullptr;
  reference->mipmap = mipmap;
  reference->address = 0;
  return CUDA_SUCCESS;
}

CUresult cuTexRefGetArray(CUarray* out, CUtexref handle) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (out == nullptr || reference->array == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reference->array;
  return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray* out, CUtexref handle) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (out == nullptr || reference->mipmap == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reference->mipmap;
  return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddress_v2(size_t* offset, CUtexref handle, CUdeviceptr address, size_t) {
  if (offset != nullptr) *offset = 0;
  return Set(handle, &TextureReference::address, address);
}

CUresult cuTexRefSetAddress2D_v3(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR* shape,
                                 CUdeviceptr address, size_t pitch) {
  const bool valid = shape != nullptr && pitch % 32 == 0;
  return Set(handle, &TextureReference::address, address, valid);
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr* out, CUtexref handle) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (out == nullptr || reference->address == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = reference->address;
  return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddressMode(CUtexref handle, int axis, CUaddress_mode mode) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (axis < 0 || axis > 2 || mode < 0 || mode > CU_TR_ADDRESS_MODE_BORDER)
    return CUDA_ERROR_INVALID_VALUE;
  reference->addressing[axis] = mode;
  return CUDA_SUCCESS;
}

CUresult cuTexRefGetAddressMode(CUaddress_mode* out, CUtexref handle, int axis) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (out == nullptr || axis < 0 || axis > 2) return CUDA_ERROR_INVALID_VALUE;
  *out = reference->addressing[axis];
  return CUDA_SUCCESS;
}

CUresult cuTexRefSetBorderColor(CUtexref handle, float* color) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (color == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::copy_n(color, 4, reference->border);
  return CUDA_SUCCESS;
}

CUresult cuTexRefGetBorderColor(float* color, CUtexref handle) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (color == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::copy_n(reference->border, 4, color);
  return CUDA_SUCCESS;
}

CUresult cuTexRefSetFilterMode(CUtexref handle, CUfilter_mode mode) {
  return Set(handle, &TextureReference::filter, mode,
             mode >= 0 && mode <= CU_TR_FILTER_MODE_LINEAR);
}
CUresult cuTexRefGetFilterMode(CUfilter_mode* out, CUtexref handle) {
  return Get(handle, &TextureReference::filter, out);
}
CUresult cuTexRefSetMipmapFilterMode(CUtexref handle, CUfilter_mode mode) {
  return Set(handle, &TextureReference::mip_filter, mode,
             mode >= 0 && mode <= CU_TR_FILTER_MODE_LINEAR);
}
CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode* out, CUtexref handle) {
  return Get(handle, &TextureReference::mip_filter, out);
}
CUresult cuTexRefSetMipmapLevelBias(CUtexref handle, float bias) {
  return Set(handle, &TextureReference::bias, bias);
}
CUresult cuTexRefGetMipmapLevelBias(float* out, CUtexref handle) {
  return Get(handle, &TextureReference::bias, out);
}
CUresult cuTexRefSetMaxAnisotropy(CUtexref handle, unsigned int ratio) {
  return Set(handle, &TextureReference::anisotropy, ratio);
}
CUresult cuTexRefGetMaxAnisotropy(int* out, CUtexref handle) {
  return Get(handle, &TextureReference::anisotropy, out);
}
CUresult cuTexRefSetFlags(CUtexref handle, unsigned int flags) {
  constexpr unsigned kFlags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                              CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                              CU_TRSF_SEAMLESS_CUBEMAP;
  return Set(handle, &TextureReference::flags, flags, (flags & ~kFlags) == 0);
}
CUresult cuTexRefGetFlags(unsigned int* out, CUtexref handle) {
  return Get(handle, &TextureReference::flags, out);
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref handle, float least, float most) {
  if (const CUresult result = Set(handle, &TextureReference::least, least)) return result;
  return Set(handle, &TextureReference::most, most);
}

CUresult cuTexRefGetMipmapLevelClamp(float* least, float* most, CUtexref handle) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (least != nullptr) *least = reference->least;
  if (most != nullptr) *most = reference->most;
  return CUDA_SUCCESS;
}

CUresult cuTexRefSetFormat(CUtexref handle, CUarray_format format, int channels) {
  Format known;
  const bool valid = FormatOf(format, &known) && (channels == 1 || channels == 2 || channels == 4);
  if (const CUresult result = Set(handle, &TextureReference::format, format, valid)) return result;
  return Set(handle, &TextureReference::channels, channels);
}

CUresult cuTexRefGetFormat(CUarray_format* format, int* channels, CUtexref handle) {
  Reference reference;
  if (const CUresult result = Find(handle, &reference)) return result;
  if (format != nullptr) *format = reference->format;
  if (channels != nullptr) *channels = reference->channels;
  return CUDA_SUCCESS;
}

}  // extern "C"
