// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmaps: rows one after the other in device memory. Texture objects over them.
#pragma once

#include <memory>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/registry.h"
#include "cpu-device/texture/texture.h"

namespace farcall::cpu_device {

class Context;

inline constexpr uint64_t kArrayAlignment = 512;  // of mapped memory

// How a format's texels lie in memory. false: a format this device does not have.
struct Format {
  texture::Texel texel = texture::Texel::kU8;
  unsigned channels = 0;  // 0: as many as the array says
  bool normalized = false;
};
bool FormatOf(CUarray_format format, Format* out);

// An array, or a level of a mipmap.
struct Array {
  Context* context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  uint32_t element_bytes = 0;
  uint64_t address = 0;  // 0: its memory was not asked for yet
  uint64_t pitch = 0, slice = 0;
  bool is_level = false;
  uint64_t mapped_base = 0, mapped_bytes = 0;  // of an array without memory of its own

  uint64_t rows() const { return shape.Height == 0 ? 1 : shape.Height; }
  uint64_t slices() const { return shape.Depth == 0 ? 1 : shape.Depth; }
  uint64_t bytes() const { return slice * slices(); }
  CUarray handle() { return reinterpret_cast<CUarray>(this); }
};

struct Mipmap {
  Context* context = nullptr;
  uint64_t address = 0, bytes = 0;
  uint64_t mapped_base = 0, mapped_bytes = 0;
  std::vector<std::shared_ptr<Array>> levels;
  CUmipmappedArray handle() { return reinterpret_cast<CUmipmappedArray>(this); }
};

// Gives back what cuMemMapArrayAsync mapped, if anything.
void UnmapArrayMemory(uint64_t* base, uint64_t* bytes);

Registry<Array>& Arrays();
Registry<Mipmap>& Mipmaps();

// The box of a copy in an array: where it begins. false: it is not inside.
bool BoxInArray(const Array& array, uint64_t x_bytes, uint64_t y, uint64_t z, uint64_t width,
                uint64_t height, uint64_t depth, uint64_t* address);

// Everything of a context that goes; its memory is freed with the rest.
void ForgetArrays(const Context* context);
void ForgetTextures(const Context* context);

}  // namespace farcall::cpu_device
