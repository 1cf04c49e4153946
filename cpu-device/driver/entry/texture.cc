// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects.
#include <algorithm>
#include <map>
#include <mutex>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/memory/array.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

using texture::Level;
using texture::Object;
using texture::Texels;

struct Made {
  Context* context = nullptr;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool has_view = false, is_surface = false;
};

struct AllMade {
  std::mutex mutex;
  std::map<uint64_t, Made> by_handle;
};
AllMade& TheMade() {
  static auto* made = new AllMade;
  return *made;
}

Level LevelOf(const Array& array) {
  Level level;
  level.base = reinterpret_cast<uint8_t*>(array.address);
  level.pitch = array.pitch;
  level.slice = array.slice;
  level.width = static_cast<uint32_t>(array.shape.Width);
  level.height = static_cast<uint32_t>(array.rows());
  level.depth = static_cast<uint32_t>(array.slices());
  return level;
}

bool SetFormat(CUarray_format format, unsigned channels, Texels* texels, bool* normalized) {
  Format found;
  if (!FormatOf(format, &found) || (channels != 1 && channels != 2 && channels != 4)) return false;
  texels->texel = found.texel;
  texels->channels = static_cast<uint8_t>(channels);
  *normalized = found.normalized;
  return true;
}

bool SetShape(const CUDA_ARRAY3D_DESCRIPTOR& shape, Texels* texels, bool* normalized) {
  texels->layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  texels->cubemap = (shape.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  const bool three = shape.Depth != 0 && !texels->layered && !texels->cubemap;
  texels->dimensions = three ? 3 : shape.Height != 0 ? 2 : 1;
  return SetFormat(shape.Format, shape.NumChannels, texels, normalized);
}

// What the object reads. `normalized`: its integers are always floats.
CUresult SetTexels(const CUDA_RESOURCE_DESC& resource, Texels* texels, bool* normalized) {
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      const auto array = Arrays().Find(resource.res.array.hArray);
      if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      if (array->address == 0 || !SetShape(array->shape, texels, normalized))
        return CUDA_ERROR_INVALID_VALUE;
      texels->levels = {LevelOf(*array)};
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const auto mipmap = Mipmaps().Find(resource.res.mipmap.hMipmappedArray);
      if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      if (mipmap->address == 0 || !SetShape(mipmap->levels[0]->shape, texels, normalized))
        return CUDA_ERROR_INVALID_VALUE;
      for (const auto& level : mipmap->levels) texels->levels.push_back(LevelOf(*level));
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = resource.res.linear;
      if (!SetFormat(linear.format, linear.numChannels, texels, normalized))
        return CUDA_ERROR_INVALID_VALUE;
      // A program may name more bytes than it allocated, which CUDA takes: of what lies beyond no
      // texel is read. Whether the rest may be is seen below.
      uint64_t bytes = linear.sizeInBytes;
      Range range;
      if (TheDriver().ranges.Find(linear.devPtr, &range))
        bytes = std::min<uint64_t>(bytes, range.end() - linear.devPtr);
      const uint64_t count = bytes / texels->TexelBytes();
      if (count == 0 || count > UINT32_MAX) return CUDA_ERROR_INVALID_VALUE;
      Level level;
      level.base = reinterpret_cast<uint8_t*>(linear.devPtr);
      level.width = static_cast<uint32_t>(count);
      texels->levels = {level};
      texels->is_linear = true;
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& plane = resource.res.pitch2D;
      if (!SetFormat(plane.format, plane.numChannels, texels, normalized) || plane.width == 0 ||
          plane.height == 0 || plane.width > UINT32_MAX || plane.height > UINT32_MAX ||
          plane.pitchInBytes < plane.width * texels->TexelBytes())
        return CUDA_ERROR_INVALID_VALUE;
      Level level;
      level.base = reinterpret_cast<uint8_t*>(plane.devPtr);
      level.pitch = plane.pitchInBytes;
      level.width = static_cast<uint32_t>(plane.width);
      level.height = static_cast<uint32_t>(plane.height);
      texels->levels = {level};
      texels->dimensions = 2;
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Linear and pitched memory: all of it must be the device's.
bool IsAccessible(const CUDA_RESOURCE_DESC& resource, const Texels& texels, int device) {
  uint64_t address = 0, bytes = 0;
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
    address = resource.res.linear.devPtr;
    bytes = texels.levels[0].width * uint64_t{texels.TexelBytes()};
  } else if (resource.resType == CU_RESOURCE_TYPE_PITCH2D) {
    const auto& plane = resource.res.pitch2D;
    address = plane.devPtr;
    bytes = (plane.height - 1) * plane.pitchInBytes + plane.width * texels.TexelBytes();
  } else {
    return true;
  }
  return TheDriver().ranges.Accessible(address, bytes, device, false);
}

bool SetSampler(const CUDA_TEXTURE_DESC& texture, bool normalized_format, Object* object) {
  texture::Sampler& sampler = object->sampler;
  constexpr unsigned kFlags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                              CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                              CU_TRSF_SEAMLESS_CUBEMAP;
  if ((texture.flags & ~kFlags) != 0) return false;
  for (int axis = 0; axis < 3; ++axis) {
    const CUaddress_mode mode = texture.addressMode[axis];
    if (mode < 0 || mode > CU_TR_ADDRESS_MODE_BORDER) return false;
    sampler.addressing[axis] = static_cast<texture::Addressing>(texture.addressMode[axis]);
  }
  if (texture.filterMode < 0 || texture.filterMode > CU_TR_FILTER_MODE_LINEAR ||
      texture.mipmapFilterMode < 0 || texture.mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
    return false;
  sampler.linear = texture.filterMode == CU_TR_FILTER_MODE_LINEAR;
  sampler.mip_linear = texture.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  sampler.normalized = (texture.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  // It keeps integers from becoming floats; floats are floats.
  const texture::Texel texel = object->texels.texel;
  const bool is_float = texel == texture::Texel::kHalf || texel == texture::Texel::kFloat;
  sampler.as_integer =
      (texture.flags & CU_TRSF_READ_AS_INTEGER) != 0 && !normalized_format && !is_float;
  sampler.srgb = (texture.flags & CU_TRSF_SRGB) != 0;
  sampler.bias = texture.mipmapLevelBias;
  sampler.least_level = texture.minMipmapLevelClamp;
  sampler.most_level = texture.maxMipmapLevelClamp;
  std::copy_n(texture.borderColor, 4, sampler.border.begin());
  // Levels of one size each are asked for by unnormalized coordinates.
  return sampler.normalized || object->texels.levels.size() == 1;
}

// Another format of texels of the same size, some of the levels, some of the layers.
bool SetView(const CUDA_RESOURCE_VIEW_DESC& view, Object* object) {
  Texels& texels = object->texels;
  if (view.format < 0 || view.format > CU_RES_VIEW_FORMAT_FLOAT_4X32) return false;  // blocks
  if (view.format != CU_RES_VIEW_FORMAT_NONE) {
    using texture::Texel;
    constexpr Texel kTexels[] = {Texel::kU8,  Texel::kS8,  Texel::kU16,  Texel::kS16,
                                 Texel::kU32, Texel::kS32, Texel::kHalf, Texel::kFloat};
    const unsigned index = view.format - CU_RES_VIEW_FORMAT_UINT_1X8;
    Texels other;
    other.texel = kTexels[index / 3];
    other.channels = static_cast<uint8_t>(1u << index % 3);
    if (other.TexelBytes() != texels.TexelBytes()) return false;
    texels.texel = other.texel;
    texels.channels = other.channels;
  }
  const size_t count = texels.levels.size();
  if (view.lastMipmapLevel < view.firstMipmapLevel || view.lastMipmapLevel >= count) return false;
  texels.levels.erase(texels.levels.begin() + view.lastMipmapLevel + 1, texels.levels.end());
  texels.levels.erase(texels.levels.begin(), texels.levels.begin() + view.firstMipmapLevel);
  if (!texels.layered) return true;
  for (Level& level : texels.levels) {
    if (view.lastLayer < view.firstLayer || view.lastLayer >= level.depth) return false;
    level.base += view.firstLayer * level.slice;
    level.depth = view.lastLayer - view.firstLayer + 1;
  }
  return true;
}

CUresult Give(std::unique_ptr<Object> object, Made made, unsigned long long* out) {
  const uint64_t handle = texture::Register(std::move(object));
  if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(TheMade().mutex);
  TheMade().by_handle[handle] = made;
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult Destroy(unsigned long long handle, bool is_surface) {
  if (const CUresult result = CheckInitialized()) return result;
  Context* context = nullptr;
  {
    std::lock_guard lock(TheMade().mutex);
    const auto found = TheMade().by_handle.find(handle);
    if (found == TheMade().by_handle.end() || found->second.is_surface != is_surface)
      return CUDA_ERROR_INVALID_VALUE;
    context = found->second.context;
    TheMade().by_handle.erase(found);
  }
  // Programs destroy an object right after a launch that reads it: it goes when the work that each
  // stream has now is done, with the last copy of this.
  const std::shared_ptr<void> last(
      nullptr, [handle, is_surface](void*) { texture::Unregister(handle, is_surface); });
  for (const auto& stream : context->Streams())
    stream->Submit([last] { return CUDA_SUCCESS; }, How::kInlineIfIdle, true);
  return CUDA_SUCCESS;
}

CUresult Look(unsigned long long handle, bool is_surface, const void* out, Made* made) {
  if (const CUresult result = CheckInitialized()) return result;
  std::lock_guard lock(TheMade().mutex);
  const auto found = TheMade().by_handle.find(handle);
  if (out == nullptr || found == TheMade().by_handle.end() ||
      found->second.is_surface != is_surface)
    return CUDA_ERROR_INVALID_VALUE;
  *made = found->second;
  return CUDA_SUCCESS;
}

}  // namespace

void ForgetTextures(const Context* context) {
  std::lock_guard lock(TheMade().mutex);
  std::erase_if(TheMade().by_handle, [context](const auto& one) {
    if (one.second.context != context) return false;
    texture::Unregister(one.first, one.second.is_surface);
    return true;
  });
}

}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || resource == nullptr || texture == nullptr || resource->flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_unique<texture::Object>();
  bool normalized = false;
  if (const CUresult result = SetTexels(*resource, &object->texels, &normalized)) return result;
  const bool is_array = resource->resType == CU_RESOURCE_TYPE_ARRAY ||
                        resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  if (!IsAccessible(*resource, object->texels, context->device().ordinal) ||
      (view != nullptr && (!is_array || !SetView(*view, object.get()))) ||
      !SetSampler(*texture, normalized, object.get()))
    return CUDA_ERROR_INVALID_VALUE;
  Made made;
  made.context = context.get();
  made.resource = *resource;
  made.texture = *texture;
  made.has_view = view != nullptr;
  if (view != nullptr) made.view = *view;
  return Give(std::move(object), made, out);
}

CUresult cuTexObjectDestroy(CUtexObject handle) {
  return Destroy(handle, false);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  Made made;
  if (const CUresult result = Look(handle, false, out, &made)) return result;
  *out = made.resource;
  return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  Made made;
  if (const CUresult result = Look(handle, false, out, &made)) return result;
  *out = made.texture;
  return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  Made made;
  if (const CUresult result = Look(handle, false, out, &made)) return result;
  if (!made.has_view) return CUDA_ERROR_INVALID_VALUE;
  *out = made.view;
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || resource == nullptr || resource->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  const auto array = Arrays().Find(resource->res.array.hArray);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Levels of a mipmap are bound without: programs fill one from the other.
  if (!array->is_level && (array->shape.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_unique<texture::Object>();
  bool normalized = false;
  if (const CUresult result = SetTexels(*resource, &object->texels, &normalized)) return result;
  object->is_surface = true;
  Made made;
  made.context = context.get();
  made.resource = *resource;
  made.is_surface = true;
  return Give(std::move(object), made, out);
}

// Of an object never made, success: the public sample volumeFiltering counts on it.
CUresult cuSurfObjectDestroy(CUsurfObject handle) {
  if (handle == 0) return CheckInitialized();
  return Destroy(handle, true);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  Made made;
  if (const CUresult result = Look(handle, true, out, &made)) return result;
  *out = made.resource;
  return CUDA_SUCCESS;
}

}  // extern "C"
