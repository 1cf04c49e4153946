// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmaps.
#include "cpu-device/driver/memory/array.h"

#include <algorithm>
#include <bit>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/memory.h"

namespace farcall::cpu_device {

bool FormatOf(CUarray_format format, Format* out) {
  using texture::Texel;
  switch (static_cast<int>(format)) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return *out = {Texel::kU8}, true;
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return *out = {Texel::kU16}, true;
    case CU_AD_FORMAT_UNSIGNED_INT32:
      return *out = {Texel::kU32}, true;
    case CU_AD_FORMAT_SIGNED_INT8:
      return *out = {Texel::kS8}, true;
    case CU_AD_FORMAT_SIGNED_INT16:
      return *out = {Texel::kS16}, true;
    case CU_AD_FORMAT_SIGNED_INT32:
      return *out = {Texel::kS32}, true;
    case CU_AD_FORMAT_HALF:
      return *out = {Texel::kHalf}, true;
    case CU_AD_FORMAT_FLOAT:
      return *out = {Texel::kFloat}, true;
    case CU_AD_FORMAT_UNORM_INT8X1:
      return *out = {Texel::kU8, 1, true}, true;
    case CU_AD_FORMAT_UNORM_INT8X2:
      return *out = {Texel::kU8, 2, true}, true;
    case CU_AD_FORMAT_UNORM_INT8X4:
      return *out = {Texel::kU8, 4, true}, true;
    case CU_AD_FORMAT_UNORM_INT16X1:
      return *out = {Texel::kU16, 1, true}, true;
    case CU_AD_FORMAT_UNORM_INT16X2:
      return *out = {Texel::kU16, 2, true}, true;
    case CU_AD_FORMAT_UNORM_INT16X4:
      return *out = {Texel::kU16, 4, true}, true;
    case CU_AD_FORMAT_SNORM_INT8X1:
      return *out = {Texel::kS8, 1, true}, true;
    case CU_AD_FORMAT_SNORM_INT8X2:
      return *out = {Texel::kS8, 2, true}, true;
    case CU_AD_FORMAT_SNORM_INT8X4:
      return *out = {Texel::kS8, 4, true}, true;
    case CU_AD_FORMAT_SNORM_INT16X1:
      return *out = {Texel::kS16, 1, true}, true;
    case CU_AD_FORMAT_SNORM_INT16X2:
      return *out = {Texel::kS16, 2, true}, true;
    case CU_AD_FORMAT_SNORM_INT16X4:
      return *out = {Texel::kS16, 4, true}, true;
    default:
      return false;  // blocks and planes
  }
}

Registry<Array>& Arrays() {
  static auto* arrays = new Registry<Array>;
  return *arrays;
}

Registry<Mipmap>& Mipmaps() {
  static auto* mipmaps = new Registry<Mipmap>;
  return *mipmaps;
}

bool BoxInArray(const Array& array, uint64_t x_bytes, uint64_t y, uint64_t z, uint64_t width,
                uint64_t height, uint64_t depth, uint64_t* address) {
  const auto within = [](uint64_t at, uint64_t extent, uint64_t limit) {
    return at <= limit && extent <= limit - at;
  };
  const uint64_t row = array.shape.Width * array.element_bytes;
  if (array.address == 0 || x_bytes % array.element_bytes != 0 ||
      width % array.element_bytes != 0 || !within(x_bytes, width, row) ||
      !within(y, height, array.rows()) || !within(z, depth, array.slices()))
    return false;
  *address = array.address + z * array.slice + y * array.pitch + x_bytes;
  return true;
}

void ForgetArrays(const Context* context) {
  for (const auto& array :
       Arrays().TakeIf([context](const Array& array) { return array.context == context; }))
    UnmapArrayMemory(&array->mapped_base, &array->mapped_bytes);
  for (const auto& mipmap :
       Mipmaps().TakeIf([context](const Mipmap& mipmap) { return mipmap.context == context; }))
    UnmapArrayMemory(&mipmap->mapped_base, &mipmap->mapped_bytes);
}

namespace {

constexpr uint64_t kMaxWidth = 131072, kMaxHeight = 65536, kMaxExtent3d = 16384, kMaxLayers = 2048;
constexpr unsigned kKnownFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                                 CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |
                                 CUDA_ARRAY3D_DEFERRED_MAPPING;

CUresult CheckShape(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  Format format;
  if ((shape.Flags & CUDA_ARRAY3D_SPARSE) != 0 || !FormatOf(shape.Format, &format))
    return CUDA_ERROR_NOT_SUPPORTED;
  const unsigned channels = shape.NumChannels;
  if ((shape.Flags & ~kKnownFlags) != 0 || (channels != 1 && channels != 2 && channels != 4) ||
      (format.channels != 0 && format.channels != channels) || shape.Width == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const bool layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  const bool cubemap = (shape.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  if (cubemap) {
    const bool whole = layered ? shape.Depth != 0 && shape.Depth % 6 == 0 : shape.Depth == 6;
    if (shape.Width != shape.Height || !whole) return CUDA_ERROR_INVALID_VALUE;
  }
  if (layered && shape.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool three = shape.Depth != 0 && !layered && !cubemap;
  if (three && shape.Height == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool fits =
      three ? std::max({shape.Width, shape.Height, shape.Depth}) <= kMaxExtent3d
            : shape.Width <= kMaxWidth && shape.Height <= kMaxHeight && shape.Depth <= kMaxLayers;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

std::shared_ptr<Array> Lay(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  auto array = std::make_shared<Array>();
  Format format;
  FormatOf(shape.Format, &format);
  texture::Texels texels;
  texels.texel = format.texel;
  texels.channels = static_cast<uint8_t>(shape.NumChannels);
  array->context = &context;
  array->shape = shape;
  array->element_bytes = texels.TexelBytes();
  array->pitch = (shape.Width * array->element_bytes + 63) & ~63ull;
  array->slice = array->pitch * array->rows();
  return array;
}

bool Deferred(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return (shape.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) != 0;
}

CUresult FindArray(CUarray handle, std::shared_ptr<Array>* array) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *array = Arrays().Find(handle);
  return *array == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult FindMipmap(CUmipmappedArray handle, std::shared_ptr<Mipmap>* mipmap) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *mipmap = Mipmaps().Find(handle);
  return *mipmap == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult GiveRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, const CUDA_ARRAY3D_DESCRIPTOR& shape,
                          uint64_t bytes, CUdevice device) {
  if (out == nullptr || !Deferred(shape)) return CUDA_ERROR_INVALID_VALUE;
  if (FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out = {};
  out->size = bytes;
  out->alignment = kArrayAlignment;
  return CUDA_SUCCESS;
}

CUDA_MEMCPY3D Row(size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

void From(CUDA_MEMCPY3D* copy, CUarray array, size_t offset) {
  copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->srcArray = array;
  copy->srcXInBytes = offset;
}

void To(CUDA_MEMCPY3D* copy, CUarray array, size_t offset) {
  copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->dstArray = array;
  copy->dstXInBytes = offset;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckShape(*shape)) return result;
  auto array = Lay(*context, *shape);
  if (!Deferred(*shape)) {
    if (const CUresult result = AllocateDevice(*context, array->bytes(), RangeKind::kDevice, 0,
                                               nullptr, &array->address))
      return result;
  }
  *out = array->handle();
  Arrays().Add(std::move(array));
  return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* flat) {
  if (flat == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = flat->Width;
  shape.Height = flat->Height;
  shape.Format = flat->Format;
  shape.NumChannels = flat->NumChannels;
  return cuArray3DCreate_v2(out, &shape);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  std::shared_ptr<Array> array;
  if (const CUresult result = FindArray(handle, &array)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = array->shape;
  return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  std::shared_ptr<Array> array;
  if (const CUresult result = FindArray(handle, &array)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {array->shape.Width, array->shape.Height, array->shape.Format, array->shape.NumChannels};
  return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray handle) {
  std::shared_ptr<Array> array;
  if (const CUresult result = FindArray(handle, &array)) return result;
  if (array->is_level) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = array->context->Synchronize()) return result;
  Arrays().Take(handle);
  if (Deferred(array->shape)) {
    UnmapArrayMemory(&array->mapped_base, &array->mapped_bytes);
    return CUDA_SUCCESS;
  }
  return array->address == 0 ? CUDA_SUCCESS : FreeDevice(array->address, {RangeKind::kDevice});
}

// No format here has planes.
CUresult cuArrayGetPlane(CUarray*, CUarray handle, unsigned int) {
  std::shared_ptr<Array> array;
  if (const CUresult result = FindArray(handle, &array)) return result;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle,
                                      CUdevice device) {
  std::shared_ptr<Array> array;
  if (const CUresult result = FindArray(handle, &array)) return result;
  return GiveRequirements(out, array->shape, array->bytes(), device);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                unsigned int levels) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || shape == nullptr || levels == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckShape(*shape)) return result;
  const bool layers = (shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const uint64_t longest =
      std::max<uint64_t>({shape->Width, shape->Height, layers ? 0 : shape->Depth});
  auto mipmap = std::make_shared<Mipmap>();
  mipmap->context = context.get();
  // More levels than halvings are as many as there are.
  levels = std::min(levels, static_cast<unsigned>(std::bit_width(longest)));
  const auto half = [](uint64_t extent, unsigned level) {
    return extent == 0 ? 0 : std::max<uint64_t>(extent >> level, 1);
  };
  for (unsigned level = 0; level < levels; ++level) {
    CUDA_ARRAY3D_DESCRIPTOR part = *shape;
    part.Width = half(shape->Width, level);
    part.Height = half(shape->Height, level);
    if (!layers) part.Depth = half(shape->Depth, level);
    mipmap->levels.push_back(Lay(*context, part));
    mipmap->levels.back()->is_level = true;
    mipmap->bytes += mipmap->levels.back()->bytes();
  }
  if (!Deferred(*shape)) {
    if (const CUresult result = AllocateDevice(*context, mipmap->bytes, RangeKind::kDevice, 0,
                                               nullptr, &mipmap->address))
      return result;
    uint64_t address = mipmap->address;
    for (const auto& level : mipmap->levels) {
      level->address = address;
      address += level->bytes();
    }
  }
  for (const auto& level : mipmap->levels) Arrays().Add(level);
  *out = mipmap->handle();
  Mipmaps().Add(std::move(mipmap));
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  std::shared_ptr<Mipmap> mipmap;
  if (const CUresult result = FindMipmap(handle, &mipmap)) return result;
  if (out == nullptr || level >= mipmap->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = mipmap->levels[level]->handle();
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  std::shared_ptr<Mipmap> mipmap;
  if (const CUresult result = FindMipmap(handle, &mipmap)) return result;
  if (const CUresult result = mipmap->context->Synchronize()) return result;
  Mipmaps().Take(handle);
  for (const auto& level : mipmap->levels) Arrays().Take(level.get());
  UnmapArrayMemory(&mipmap->mapped_base, &mipmap->mapped_bytes);
  return mipmap->address == 0 ? CUDA_SUCCESS : FreeDevice(mipmap->address, {RangeKind::kDevice});
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                               CUmipmappedArray handle, CUdevice device) {
  std::shared_ptr<Mipmap> mipmap;
  if (const CUresult result = FindMipmap(handle, &mipmap)) return result;
  return GiveRequirements(out, mipmap->levels[0]->shape, mipmap->bytes, device);
}

CUresult cuMemcpyHtoA_v2(CUarray array, size_t offset, const void* host, size_t bytes) {
  CUDA_MEMCPY3D copy = Row(bytes);
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host;
  To(&copy, array, offset);
  return cuMemcpy3D_v2(&copy);
}

CUresult cuMemcpyAtoH_v2(void* host, CUarray array, size_t offset, size_t bytes) {
  CUDA_MEMCPY3D copy = Row(bytes);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host;
  From(&copy, array, offset);
  return cuMemcpy3D_v2(&copy);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray array, size_t offset, const void* host, size_t bytes,
                              CUstream stream) {
  CUDA_MEMCPY3D copy = Row(bytes);
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host;
  To(&copy, array, offset);
  return cuMemcpy3DAsync_v2(&copy, stream);
}

CUresult cuMemcpyAtoHAsync_v2(void* host, CUarray array, size_t offset, size_t bytes,
                              CUstream stream) {
  CUDA_MEMCPY3D copy = Row(bytes);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host;
  From(&copy, array, offset);
  return cuMemcpy3DAsync_v2(&copy, stream);
}

CUresult cuMemcpyDtoA_v2(CUarray array, size_t offset, CUdeviceptr address, size_t bytes) {
  CUDA_MEMCPY3D copy = Row(bytes);
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address;
  To(&copy, array, offset);
  return cuMemcpy3D_v2(&copy);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr address, CUarray array, size_t offset, size_t bytes) {
  CUDA_MEMCPY3D copy = Row(bytes);
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = address;
  From(&copy, array, offset);
  return cuMemcpy3D_v2(&copy);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t bytes) {
  CUDA_MEMCPY3D copy = Row(bytes);
  From(&copy, from, from_offset);
  To(&copy, to, to_offset);
  return cuMemcpy3D_v2(&copy);
}

}  // extern "C"
