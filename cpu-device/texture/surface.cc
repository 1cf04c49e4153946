// SPDX-License-Identifier: Apache-2.0
// Formats, and surfaces: where a texel lies, and how one is stored.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cpu-device/texture/texel.h"

namespace farcall::cpu_device::texture {
namespace {

template <typename T>
T Load(const uint8_t* at, unsigned channel) {
  T value;
  memcpy(&value, at + channel * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Store(uint8_t* at, unsigned channel, T value) {
  memcpy(at + channel * sizeof(T), &value, sizeof(T));
}

uint32_t Integer(Texel texel, const uint8_t* at, unsigned channel) {
  switch (texel) {
    case Texel::kU8:
      return Load<uint8_t>(at, channel);
    case Texel::kS8:
      return static_cast<uint32_t>(int32_t{Load<int8_t>(at, channel)});
    case Texel::kU16:
      return Load<uint16_t>(at, channel);
    case Texel::kS16:
      return static_cast<uint32_t>(int32_t{Load<int16_t>(at, channel)});
    default:
      return Load<uint32_t>(at, channel);
  }
}

float FromSrgb(float value) {
  return value <= 0.04045f ? value / 12.92f : std::pow((value + 0.055f) / 1.055f, 2.4f);
}

float Float(Texel texel, const uint8_t* at, unsigned channel) {
  switch (texel) {
    case Texel::kU8:
      return static_cast<float>(Load<uint8_t>(at, channel)) / 255.0f;
    case Texel::kS8:
      return std::max(static_cast<float>(Load<int8_t>(at, channel)) / 127.0f, -1.0f);
    case Texel::kU16:
      return static_cast<float>(Load<uint16_t>(at, channel)) / 65535.0f;
    case Texel::kS16:
      return std::max(static_cast<float>(Load<int16_t>(at, channel)) / 32767.0f, -1.0f);
    case Texel::kHalf:
      return HalfToFloat(Load<uint16_t>(at, channel));
    default:
      return Load<float>(at, channel);
  }
}

}  // namespace

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31,
                 mantissa = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | mantissa << 13);
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7FFF;
  if (magnitude >= 0x47800000) return sign | 0x7C00;
  if (magnitude < 0x38800000) {  // subnormal: a multiple of 2^-24, to nearest even
    const float scaled = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f);
    return sign | static_cast<uint16_t>(scaled);
  }
  const uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000) >> 13);
}

Color ReadTexel(const Object& object, const uint8_t* at) {
  const Texels& texels = object.texels;
  const bool is_half_or_float = texels.texel == Texel::kHalf || texels.texel == Texel::kFloat;
  const bool integers = object.ReadsIntegers() && !is_half_or_float;
  const bool srgb = object.sampler.srgb && texels.texel == Texel::kU8;
  auto read = [&](unsigned channel) -> uint32_t {
    if (integers) return Integer(texels.texel, at, channel);
    const float value = Float(texels.texel, at, channel);
    return std::bit_cast<uint32_t>(srgb && channel < 3 ? FromSrgb(value) : value);
  };
  const uint32_t last = integers ? 1 : std::bit_cast<uint32_t>(1.0f);
  // In registers: a color written word by word is slow to read as a whole.
  if (texels.channels == 1) return {read(0), 0, 0, last};
  if (texels.channels == 2) return {read(0), read(1), 0, last};
  return {read(0), read(1), read(2), texels.channels == 4 ? read(3) : last};
}

uint8_t* SurfaceAddress(const Object& object, Shape shape, uint32_t layer, int32_t x, int32_t y,
                        int32_t z, uint32_t bytes, Outside outside) {
  const Texels& texels = object.texels;
  const Level& level = texels.levels[0];
  int64_t row = int64_t{level.width} * texels.TexelBytes();
  int64_t at[3] = {x, y, z};
  int64_t most[3] = {row - bytes, int64_t{level.height} - 1, int64_t{level.depth} - 1};
  if (shape == Shape::k1d || shape == Shape::kA1d) at[1] = 0;
  if (shape != Shape::k3d) at[2] = 0;
  if (shape == Shape::kA1d || shape == Shape::kA2d || shape == Shape::kCube ||
      shape == Shape::kAcube)
    at[2] = layer;
  for (int i = 0; i < 3; ++i) {
    if (at[i] >= 0 && at[i] <= most[i]) continue;
    if (outside != Outside::kClamp || most[i] < 0) return nullptr;
    at[i] = std::clamp<int64_t>(at[i], 0, most[i]);
  }
  return level.base + static_cast<uint64_t>(at[2]) * level.slice +
         static_cast<uint64_t>(at[1]) * level.pitch + static_cast<uint64_t>(at[0]);
}

void StoreTexel(const Object& object, uint8_t* at, const Color& color) {
  for (unsigned channel = 0; channel < object.texels.channels; ++channel) {
    const uint32_t bits = color[channel];
    const auto as_signed = static_cast<int32_t>(bits);
    switch (object.texels.texel) {
      case Texel::kU8:
        Store(at, channel, static_cast<uint8_t>(std::min<uint32_t>(bits, 255)));
        break;
      case Texel::kS8:
        Store(at, channel, static_cast<int8_t>(std::clamp(as_signed, -128, 127)));
        break;
      case Texel::kU16:
        Store(at, channel, static_cast<uint16_t>(std::min<uint32_t>(bits, 65535)));
        break;
      case Texel::kS16:
        Store(at, channel, static_cast<int16_t>(std::clamp(as_signed, -32768, 32767)));
        break;
      case Texel::kHalf:
        Store(at, channel, FloatToHalf(std::bit_cast<float>(bits)));
        break;
      default:
        Store(at, channel, bits);
        break;
    }
  }
}

}  // namespace farcall::cpu_device::texture
