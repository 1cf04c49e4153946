// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "driver.h"

extern const char* const kTexturePtx;  // texture_kernels.cc

namespace {

struct Quad {
  float x = 0, y = 0, z = 0, w = 0;
};

class Kernels {
 public:
  Kernels() { CHECK(D(cuModuleLoadData)(&module_, kTexturePtx)); }
  std::vector<Quad> Run(const char* name, unsigned long long object, const std::vector<Quad>& at) {
    CUfunction function = nullptr;
    CUdeviceptr in = 0, out = 0;
    std::vector<Quad> result(at.size());
    CHECK(D(cuModuleGetFunction)(&function, module_, name));
    CHECK(D(cuMemAlloc_v2)(&in, at.size() * sizeof(Quad)));
    CHECK(D(cuMemAlloc_v2)(&out, at.size() * sizeof(Quad)));
    CHECK(D(cuMemcpyHtoD_v2)(in, at.data(), at.size() * sizeof(Quad)));
    void* parameters[] = {&object, &in, &out};
    CHECK(D(cuLaunchKernel)(function, 1, 1, 1, static_cast<unsigned>(at.size()), 1, 1, 0, nullptr,
                            parameters, nullptr));
    CHECK(D(cuMemcpyDtoH_v2)(result.data(), out, at.size() * sizeof(Quad)));
    CHECK(D(cuMemFree_v2)(in));
    CHECK(D(cuMemFree_v2)(out));
    return result;
  }

 private:
  CUmodule module_ = nullptr;
};

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

CUarray Upload(const void* data, size_t width, size_t height, size_t depth, CUarray_format format,
               unsigned channels, size_t element, unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = width;
  shape.Height = height;
  shape.Depth = depth;
  shape.Format = format;
  shape.NumChannels = channels;
  shape.Flags = flags;
  CUarray array = nullptr;
  CHECK(D(cuArray3DCreate_v2)(&array, &shape));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = data;
  copy.srcPitch = width * element;
  copy.srcHeight = height;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = width * element;
  copy.Height = height;
  copy.Depth = depth == 0 ? 1 : depth;
  CHECK(D(cuMemcpy3D_v2)(&copy));
  return array;
}

CUDA_RESOURCE_DESC Resource(CUarray array) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

CUtexObject Texture(const CUDA_RESOURCE_DESC& resource, CUaddress_mode mode, CUfilter_mode filter,
                    unsigned flags) {
  CUDA_TEXTURE_DESC texture{};
  for (CUaddress_mode& one : texture.addressMode) one = mode;
  texture.filterMode = texture.mipmapFilterMode = filter;
  texture.flags = flags;
  texture.maxMipmapLevelClamp = 10;
  texture.borderColor[0] = 0.25f;
  CUtexObject object = 0;
  CHECK(D(cuTexObjectCreate)(&object, &resource, &texture, nullptr));
  EXPECT(object != 0);
  return object;
}

// 4 x 3 floats, value = 10 y + x.
void Filters(Kernels& kernels) {
  float texels[12];
  for (int i = 0; i < 12; ++i) texels[i] = static_cast<float>(10 * (i / 4) + i % 4);
  CUarray array = Upload(texels, 4, 3, 0, CU_AD_FORMAT_FLOAT, 1, 4);
  const CUDA_RESOURCE_DESC resource = Resource(array);

  CUtexObject point = Texture(resource, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, 0);
  auto got = kernels.Run("fetch2d", point,
                         {{0.f, 0.f}, {3.99f, 2.f}, {-7.f, 1.5f}, {9.f, 9.f}, {1.5f, NAN}});
  EXPECT(got[0].x == 0 && got[1].x == 23 && got[2].x == 10 && got[3].x == 23 && got[4].x == 1);

  // Halfway between texel centres; weights have 8 fractional bits: 0.3 is 77/256.
  CUtexObject linear = Texture(resource, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
  got = kernels.Run("fetch2d", linear,
                    {{0.5f, 0.5f}, {1.f, 0.5f}, {1.f, 1.f}, {0.f, 0.f}, {0.8f, 0.5f}, {4.f, 3.f}});
  EXPECT(got[0].x == 0 && got[1].x == 0.5f && got[2].x == 5.5f && got[3].x == 0 && got[5].x == 23);
  EXPECT(got[4].x == 77.0f / 256.0f);

  CUtexObject border = Texture(resource, CU_TR_ADDRESS_MODE_BORDER, CU_TR_FILTER_MODE_POINT, 0);
  got = kernels.Run("fetch2d", border, {{-0.5f, 0.5f}, {2.f, 2.f}, {2.f, 3.f}});
  EXPECT(got[0].x == 0.25f && got[1].x == 22 && got[2].x == 0.25f);

  const unsigned normalized = CU_TRSF_NORMALIZED_COORDINATES;
  CUtexObject wrap =
      Texture(resource, CU_TR_ADDRESS_MODE_WRAP, CU_TR_FILTER_MODE_POINT, normalized);
  got = kernels.Run("fetch2d", wrap, {{1.125f, 0.f}, {-0.125f, 0.f}, {0.375f, 2.5f}});
  EXPECT(got[0].x == 0 && got[1].x == 3 && got[2].x == 11);
  CUtexObject mirror =
      Texture(resource, CU_TR_ADDRESS_MODE_MIRROR, CU_TR_FILTER_MODE_POINT, normalized);
  got = kernels.Run("fetch2d", mirror, {{1.125f, 0.f}, {-0.125f, 0.f}});
  EXPECT(got[0].x == 3 && got[1].x == 0);
  CUtexObject seam =
      Texture(resource, CU_TR_ADDRESS_MODE_WRAP, CU_TR_FILTER_MODE_LINEAR, normalized);
  got = kernels.Run("fetch2d", seam, {{0.f, 0.5f / 3}});
  EXPECT(got[0].x == 1.5f);  // of the first column and the last

  CUDA_ARRAY3D_DESCRIPTOR shape{4, 3, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER};
  CUarray gatherable = Upload(texels, 4, 3, 0, shape.Format, 1, 4, shape.Flags);
  CUtexObject around =
      Texture(Resource(gatherable), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
  got = kernels.Run("gather", around, {{2.f, 1.f}});
  EXPECT(got[0].x == 11 && got[0].y == 12 && got[0].z == 2 && got[0].w == 1);

  CUDA_RESOURCE_DESC found{};
  CUDA_TEXTURE_DESC sampler{};
  CUDA_RESOURCE_VIEW_DESC view{};
  CHECK(D(cuTexObjectGetResourceDesc)(&found, border));
  EXPECT(found.resType == CU_RESOURCE_TYPE_ARRAY && found.res.array.hArray == array);
  CHECK(D(cuTexObjectGetTextureDesc)(&sampler, border));
  EXPECT(sampler.addressMode[1] == CU_TR_ADDRESS_MODE_BORDER && sampler.borderColor[0] == 0.25f);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexObjectGetResourceViewDesc)(&view, border));
  for (CUtexObject object : {point, linear, border, wrap, mirror, seam, around})
    CHECK(D(cuTexObjectDestroy)(object));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexObjectDestroy)(point));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexObjectGetTextureDesc)(&sampler, point));
  CHECK(D(cuArrayDestroy)(array));
  CHECK(D(cuArrayDestroy)(gatherable));
}

void Formats(Kernels& kernels) {
  const uint8_t bytes[8] = {0, 51, 255, 128, 255, 0, 102, 255};
  CUarray array = Upload(bytes, 2, 1, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 4);
  CUtexObject floats =
      Texture(Resource(array), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, 0);
  auto got = kernels.Run("fetch2d", floats, {{0.5f, 0.5f}, {1.5f, 0.5f}});
  EXPECT(got[0].x == 0 && got[0].y == 51 / 255.f && got[0].z == 1 && got[0].w == 128 / 255.f &&
         got[1].x == 1);
  CUtexObject integers = Texture(Resource(array), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT,
                                 CU_TRSF_READ_AS_INTEGER);
  got = kernels.Run("fetch2d", integers, {{0.5f, 0.5f}});
  EXPECT(Bits(got[0].x) == 0 && Bits(got[0].y) == 51 && Bits(got[0].z) == 255 &&
         Bits(got[0].w) == 128);
  CUtexObject srgb =
      Texture(Resource(array), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, CU_TRSF_SRGB);
  got = kernels.Run("fetch2d", srgb, {{0.5f, 0.5f}});
  EXPECT(std::fabs(got[0].y - 0.0331048f) < 1e-5f && got[0].z == 1 && got[0].w == 128 / 255.f);
  // The same bytes as two 16-bit numbers, by a view.
  CUDA_TEXTURE_DESC texture{};
  texture.flags = CU_TRSF_READ_AS_INTEGER;
  CUDA_RESOURCE_VIEW_DESC view{}, back{};
  view.format = CU_RES_VIEW_FORMAT_UINT_2X16;
  view.width = 2;
  view.height = 1;
  CUDA_RESOURCE_DESC resource = Resource(array);
  CUtexObject viewed = 0;
  CHECK(D(cuTexObjectCreate)(&viewed, &resource, &texture, &view));
  got = kernels.Run("fetch2d", viewed, {{0.5f, 0.5f}});
  EXPECT(Bits(got[0].x) == (51u << 8) && Bits(got[0].y) == (255u | 128u << 8));
  CHECK(D(cuTexObjectGetResourceViewDesc)(&back, viewed));
  EXPECT(back.format == CU_RES_VIEW_FORMAT_UINT_2X16);
  const uint16_t halves[2] = {0x3C00, 0xC100};  // 1, -2.5
  CUarray narrow = Upload(halves, 2, 1, 0, CU_AD_FORMAT_HALF, 1, 2);
  CUtexObject half =
      Texture(Resource(narrow), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
  got = kernels.Run("fetch2d", half, {{0.5f, 0.5f}, {1.f, 0.5f}, {1.5f, 0.5f}});
  EXPECT(got[0].x == 1 && got[1].x == -0.75f && got[2].x == -2.5f);
}

void Shapes(Kernels& kernels) {
  float volume[27], layers[18], faces[24];
  for (int i = 0; i < 27; ++i) volume[i] = static_cast<float>(i);
  for (int i = 0; i < 18; ++i) layers[i] = static_cast<float>(100 * (i / 6) + i % 6);
  for (int i = 0; i < 24; ++i) faces[i] = static_cast<float>(10 * (i / 4) + i % 4);
  CUarray solid = Upload(volume, 3, 3, 3, CU_AD_FORMAT_FLOAT, 1, 4);
  CUtexObject three =
      Texture(Resource(solid), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
  auto got =
      kernels.Run("fetch3d", three, {{0.5f, 0.5f, 0.5f}, {1.5f, 1.5f, 1.5f}, {1.f, 1.f, 1.f}});
  EXPECT(got[0].x == 0 && got[1].x == 13 && got[2].x == 6.5f);
  CUarray stack = Upload(layers, 3, 2, 3, CU_AD_FORMAT_FLOAT, 1, 4, CUDA_ARRAY3D_LAYERED);
  CUtexObject layered =
      Texture(Resource(stack), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
  got =
      kernels.Run("fetchlayer", layered, {{1.f, 0.5f, 0.f}, {1.5f, 1.5f, 2.f}, {0.5f, 0.5f, 9.f}});
  EXPECT(got[0].x == 0.5f && got[1].x == 204 && got[2].x == 200);  // layers are clamped, not mixed
  CUarray box = Upload(faces, 2, 2, 6, CU_AD_FORMAT_FLOAT, 1, 4, CUDA_ARRAY3D_CUBEMAP);
  CUtexObject cube = Texture(Resource(box), CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT,
                             CU_TRSF_NORMALIZED_COORDINATES);
  got = kernels.Run("fetchcube", cube,
                    {{1, .5f, .5f},
                     {-1, .5f, .5f},
                     {.5f, 1, .5f},
                     {.5f, -1, .5f},
                     {.5f, .5f, 1},
                     {.5f, .5f, -1}});
  // Face 0: s = -z, t = -y: both negative, the first texel; and so on by the guide's table.
  EXPECT(got[0].x == 0 && got[1].x == 11 && got[2].x == 23 && got[3].x == 31 && got[4].x == 41 &&
         got[5].x == 50);
}

void Levels(Kernels& kernels) {
  CUDA_ARRAY3D_DESCRIPTOR shape{4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  CUmipmappedArray mipmap = nullptr;
  CHECK(D(cuMipmappedArrayCreate)(&mipmap, &shape, 3));
  for (unsigned level = 0; level < 3; ++level) {
    CUarray array = nullptr;
    CHECK(D(cuMipmappedArrayGetLevel)(&array, mipmap, level));
    std::vector<float> values(16, static_cast<float>(level * 8));
    for (unsigned y = 0; y < 4u >> level; ++y) {
      CUDA_MEMCPY2D copy{};
      copy.srcMemoryType = CU_MEMORYTYPE_HOST;
      copy.srcHost = values.data();
      copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
      copy.dstArray = array;
      copy.dstY = y;
      copy.WidthInBytes = (4u >> level) * 4;
      copy.Height = 1;
      CHECK(D(cuMemcpy2D_v2)(&copy));
    }
  }
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = mipmap;
  CUtexObject mixed = Texture(resource, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR,
                              CU_TRSF_NORMALIZED_COORDINATES);
  auto got = kernels.Run("fetchlevel", mixed,
                         {{.5f, .5f, 0.f}, {.5f, .5f, .5f}, {.5f, .5f, 1.75f}, {.5f, .5f, 9.f}});
  EXPECT(got[0].x == 0 && got[1].x == 4 && got[2].x == 14 && got[3].x == 16);
  CUtexObject nearest = Texture(resource, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT,
                                CU_TRSF_NORMALIZED_COORDINATES);
  got = kernels.Run("fetchlevel", nearest, {{.5f, .5f, .25f}, {.5f, .5f, .75f}});
  EXPECT(got[0].x == 0 && got[1].x == 8);
  // A level is written through a surface although its mipmap was not made for that.
  CUarray last = nullptr;
  CUsurfObject surface = 0;
  CHECK(D(cuMipmappedArrayGetLevel)(&last, mipmap, 2));
  const CUDA_RESOURCE_DESC level = Resource(last);
  CHECK(D(cuSurfObjectCreate)(&surface, &level));
  CHECK(D(cuSurfObjectDestroy)(surface));
  CHECK(D(cuMipmappedArrayDestroy)(mipmap));
}

void Linear(Kernels& kernels) {
  int values[8];
  for (int i = 0; i < 8; ++i) values[i] = -100 * i;
  CUdeviceptr memory = 0;
  CHECK(D(cuMemAlloc_v2)(&memory, sizeof(values)));
  CHECK(D(cuMemcpyHtoD_v2)(memory, values, sizeof(values)));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = memory;
  resource.res.linear.format = CU_AD_FORMAT_SIGNED_INT32;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = sizeof(values);
  CUtexObject object = Texture(resource, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, 0);
  auto got = kernels.Run("fetchlinear", object, {{3}, {7}, {8}, {-1}});
  EXPECT(Bits(got[0].x) == static_cast<uint32_t>(-300) &&
         Bits(got[1].x) == static_cast<uint32_t>(-700));
  EXPECT(Bits(got[2].x) == 0 && Bits(got[3].x) == 0 && Bits(got[0].y) == 8);
  CUDA_TEXTURE_DESC texture{};
  resource.res.linear.sizeInBytes = sizeof(values) * 2;  // more than was allocated
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexObjectCreate)(&object, &resource, &texture, nullptr));
  resource.res.linear.devPtr = 4096;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexObjectCreate)(&object, &resource, &texture, nullptr));
  resource = {};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D.devPtr = memory;
  resource.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
  resource.res.pitch2D.numChannels = 1;
  resource.res.pitch2D.width = 3;
  resource.res.pitch2D.height = 2;
  resource.res.pitch2D.pitchInBytes = 16;
  const float plane[8] = {0, 1, 2, -1, 10, 11, 12, -1};
  CHECK(D(cuMemcpyHtoD_v2)(memory, plane, sizeof(plane)));
  object = Texture(resource, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, 0);
  got = kernels.Run("fetch2d", object, {{1.f, 1.f}, {9.f, 9.f}});
  EXPECT(got[0].x == 5.5f && got[1].x == 12);
  resource.res.pitch2D.height = 3;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexObjectCreate)(&object, &resource, &texture, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexObjectCreate)(&object, nullptr, &texture, nullptr));
}

void Surfaces(Kernels& kernels) {
  uint32_t texels[6] = {1, 2, 3, 4, 5, 6}, back[6] = {};
  CUarray array =
      Upload(texels, 3, 2, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 4, CUDA_ARRAY3D_SURFACE_LDST);
  CUDA_RESOURCE_DESC resource = Resource(array), found{};
  CUsurfObject object = 0;
  CHECK(D(cuSurfObjectCreate)(&object, &resource));
  CHECK(D(cuSurfObjectGetResourceDesc)(&found, object));
  EXPECT(found.res.array.hArray == array);
  auto got = kernels.Run("surface", object, {{1, 1}, {2, 0}, {7, 1}, {-3, -3}});
  EXPECT(Bits(got[0].x) == 5 && Bits(got[0].y) == 5 && Bits(got[1].x) == 3);
  EXPECT(Bits(got[2].y) == 0 && Bits(got[3].x) == 1 && Bits(got[3].y) == 0 && Bits(got[0].w) == 2);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = back;
  copy.WidthInBytes = 12;
  copy.Height = 2;
  CHECK(D(cuMemcpy2D_v2)(&copy));
  const uint32_t expected[6] = {1, 2, 1003, 4, 1005, 6};  // what lay outside was written nowhere
  EXPECT(std::memcmp(back, expected, sizeof(back)) == 0);
  CHECK(D(cuSurfObjectDestroy)(object));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuSurfObjectDestroy)(object));
  CUarray plain = Upload(texels, 3, 2, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 4);
  resource = Resource(plain);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuSurfObjectCreate)(&object, &resource));
}

void References() {
  CUtexref reference = nullptr;
  CUmodule module = nullptr;
  CHECK(D(cuModuleLoadData)(&module, kAddPtx));
  CODE(CUDA_ERROR_NOT_FOUND, D(cuModuleGetTexRef)(&reference, module, "none"));
  CUsurfref surface = nullptr;
  CODE(CUDA_ERROR_NOT_FOUND, D(cuModuleGetSurfRef)(&surface, module, "none"));
  CHECK(D(cuTexRefCreate)(&reference));
  CHECK(D(cuTexRefSetFilterMode)(reference, CU_TR_FILTER_MODE_LINEAR));
  CUfilter_mode filter{};
  CHECK(D(cuTexRefGetFilterMode)(&filter, reference));
  EXPECT(filter == CU_TR_FILTER_MODE_LINEAR);
  CHECK(D(cuTexRefSetAddressMode)(reference, 1, CU_TR_ADDRESS_MODE_WRAP));
  CUaddress_mode mode{};
  CHECK(D(cuTexRefGetAddressMode)(&mode, reference, 1));
  EXPECT(mode == CU_TR_ADDRESS_MODE_WRAP);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexRefGetAddressMode)(&mode, reference, 3));
  CHECK(D(cuTexRefSetFlags)(reference, CU_TRSF_NORMALIZED_COORDINATES));
  unsigned flags = 0;
  CHECK(D(cuTexRefGetFlags)(&flags, reference));
  EXPECT(flags == CU_TRSF_NORMALIZED_COORDINATES);
  CHECK(D(cuTexRefSetFormat)(reference, CU_AD_FORMAT_HALF, 2));
  CUarray_format format{};
  int channels = 0;
  CHECK(D(cuTexRefGetFormat)(&format, &channels, reference));
  EXPECT(format == CU_AD_FORMAT_HALF && channels == 2);
  CHECK(D(cuTexRefGetFormat)(nullptr, &channels, reference));
  CHECK(D(cuTexRefSetMipmapFilterMode)(reference, CU_TR_FILTER_MODE_LINEAR));
  CHECK(D(cuTexRefGetMipmapFilterMode)(&filter, reference));
  CHECK(D(cuTexRefSetMipmapLevelBias)(reference, 0.5f));
  CHECK(D(cuTexRefSetMipmapLevelClamp)(reference, 1, 3));
  CHECK(D(cuTexRefSetMaxAnisotropy)(reference, 4));
  float bias = 0, least = 0, most = 0, color[4] = {1, 2, 3, 4}, got[4] = {};
  int ratio = 0;
  CHECK(D(cuTexRefGetMipmapLevelBias)(&bias, reference));
  CHECK(D(cuTexRefGetMipmapLevelClamp)(&least, &most, reference));
  CHECK(D(cuTexRefGetMaxAnisotropy)(&ratio, reference));
  EXPECT(bias == 0.5f && least == 1 && most == 3 && ratio == 4);
  CHECK(D(cuTexRefSetBorderColor)(reference, color));
  CHECK(D(cuTexRefGetBorderColor)(got, reference));
  EXPECT(got[3] == 4);
  CUarray array = nullptr, bound = nullptr;
  CUDA_ARRAY_DESCRIPTOR shape{8, 8, CU_AD_FORMAT_FLOAT, 1};
  CHECK(D(cuArrayCreate_v2)(&array, &shape));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexRefGetArray)(&bound, reference));
  CHECK(D(cuTexRefSetArray)(reference, array, CU_TRSA_OVERRIDE_FORMAT));
  CHECK(D(cuTexRefGetArray)(&bound, reference));
  EXPECT(bound == array);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexRefSetArray)(reference, array, 0));
  CUDA_ARRAY3D_DESCRIPTOR levels{8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  CUmipmappedArray mipmap = nullptr, bound_mipmap = nullptr;
  CHECK(D(cuMipmappedArrayCreate)(&mipmap, &levels, 2));
  CHECK(D(cuTexRefSetMipmappedArray)(reference, mipmap, CU_TRSA_OVERRIDE_FORMAT));
  CHECK(D(cuTexRefGetMipmappedArray)(&bound_mipmap, reference));
  EXPECT(bound_mipmap == mipmap);
  CUdeviceptr memory = 0, address = 0;
  size_t offset = 77;
  CHECK(D(cuMemAlloc_v2)(&memory, 1024));
  CHECK(D(cuTexRefSetAddress_v2)(&offset, reference, memory, 1024));
  EXPECT(offset == 0);
  CHECK(D(cuTexRefGetAddress_v2)(&address, reference));
  EXPECT(address == memory);
  CHECK(D(cuTexRefSetAddress2D_v3)(reference, &shape, memory, 64));
  CHECK(D(cuTexRefSetAddress2D_v2)(reference, &shape, memory, 64));
  CUdeviceptr_v1 narrow = 0;
  unsigned narrow_offset = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexRefGetAddress)(&narrow, reference));  // it does not fit
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexRefSetAddress)(&narrow_offset, reference, 4096, 64));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuTexRefSetAddress2D)(reference, nullptr, 4096, 64));
  CUfunction add = nullptr;
  CHECK(D(cuModuleGetFunction)(&add, module, "add"));
  CHECK(D(cuParamSetTexRef)(add, CU_PARAM_TR_DEFAULT, reference));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuParamSetTexRef)(add, 3, reference));
  CHECK(D(cuTexRefDestroy)(reference));
  EXPECT(D(cuTexRefDestroy)(reference) != CUDA_SUCCESS);
  EXPECT(D(cuTexRefGetFlags)(&flags, reference) != CUDA_SUCCESS);
}

// A number that is no object ends the context, not the worker's neighbours.
void Hostile(Kernels& kernels) {
  CUcontext own = nullptr;
  CHECK(D(cuCtxCreate_v2)(&own, 0, 0));
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr memory = 0;
  unsigned long long object = 0x7777777700000001ull;
  CHECK(D(cuModuleLoadData)(&module, kTexturePtx));
  CHECK(D(cuModuleGetFunction)(&function, module, "fetch2d"));
  CHECK(D(cuMemAlloc_v2)(&memory, 64));
  void* parameters[] = {&object, &memory, &memory};
  CHECK(D(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CODE(CUDA_ERROR_ILLEGAL_ADDRESS, D(cuCtxSynchronize)());
  (void)kernels;
}

}  // namespace

void TexturesSubject() {
  Kernels kernels;
  Filters(kernels);
  Formats(kernels);
  Shapes(kernels);
  Levels(kernels);
  Linear(kernels);
  Surfaces(kernels);
  References();
  Hostile(kernels);
}
