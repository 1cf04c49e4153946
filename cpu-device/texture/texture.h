// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects as kernels see them: a number that stands for texels and the way to
// read them.
//   Source  CUDA C++ Programming Guide, "Texture Fetching"; PTX ISA, "Texture Instructions"
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace farcall::cpu_device::texture {

enum class Texel : uint8_t { kU8, kU16, kU32, kS8, kS16, kS32, kHalf, kFloat };
enum class Addressing : uint8_t { kWrap, kClamp, kMirror, kBorder };

// One level; rows `pitch` bytes apart, slices (or layers) `slice` bytes.
struct Level {
  uint8_t* base = nullptr;
  uint64_t pitch = 0, slice = 0;
  uint32_t width = 1, height = 1, depth = 1;
};

struct Texels {
  Texel texel = Texel::kU8;
  uint8_t channels = 1;
  uint8_t dimensions = 1;
  bool layered = false, cubemap = false;
  bool is_linear = false;  // plain memory: a fetch outside of it reads zeros
  std::vector<Level> levels;
  uint32_t TexelBytes() const;
  bool HoldsIntegers() const;  // of 32 bits, which are never made floats
};

struct Sampler {
  Addressing addressing[3] = {Addressing::kClamp, Addressing::kClamp, Addressing::kClamp};
  bool linear = false, mip_linear = false, normalized = false, as_integer = false, srgb = false;
  float bias = 0, least_level = 0, most_level = 0;
  std::array<float, 4> border{};
};

struct Object {
  bool is_surface = false;
  Texels texels;
  Sampler sampler;
  bool ReadsIntegers() const { return sampler.as_integer || texels.HoldsIntegers(); }
};

// Never 0; 0 = there is no room for another.   Thread  any
uint64_t Register(std::unique_ptr<Object> object);
// False: no such object. A kernel that still reads through it finds it for a while.
bool Unregister(uint64_t handle, bool is_surface);
// nullptr: no such object. Takes no lock.
const Object* Find(uint64_t handle);

// ---- Reading

enum class Shape : uint8_t { k1d, k2d, k3d, kA1d, kA2d, kCube, kAcube };

struct Fetch {
  Shape shape = Shape::k1d;
  bool integer_coordinates = false;
  uint32_t layer = 0;
  float at[3] = {};
  int32_t texel_at[3] = {};  // with integer_coordinates
  float level = 0;
  float dx[3] = {}, dy[3] = {};
  bool has_gradients = false;
};

// Four channels, floats or integers as the object reads them: bits.
using Color = std::array<uint32_t, 4>;
Color Sample(const Object& object, const Fetch& fetch);
// One channel of the four texels a linear filter would use.
Color Gather(const Object& object, const Fetch& fetch, unsigned channel);

// ---- Surfaces

enum class Outside : uint8_t { kTrap, kClamp, kZero };

// Where `bytes` bytes at byte `x` of a row lie; nullptr: outside, and that is not clamped.
uint8_t* SurfaceAddress(const Object& object, Shape shape, uint32_t layer, int32_t x, int32_t y,
                        int32_t z, uint32_t bytes, Outside outside);
// Writes four channels of 32 bits as the surface's format has them; x in texels.
void StoreTexel(const Object& object, uint8_t* at, const Color& color);

// ---- Questions: PTX's names of what txq and suq ask for
enum class Query : uint8_t {
  kWidth,
  kHeight,
  kDepth,
  kDataType,
  kOrder,
  kNormalized,
  kLevels,
  kSamples,
  kLayers,
};
uint32_t Ask(const Object& object, Query query, uint32_t level);

}  // namespace farcall::cpu_device::texture
