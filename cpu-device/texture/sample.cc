// SPDX-License-Identifier: Apache-2.0
// Sampling as the programming guide describes it: addressing, point and linear filters with weights
// of 8 fractional bits, mip levels, faces of a cube.
#include <algorithm>
#include <bit>
#include <cmath>

#include "cpu-device/texture/texel.h"

namespace farcall::cpu_device::texture {
namespace {

// A coordinate that is no number, or beyond any texture, must not reach an integer conversion.
float Tame(float value) {
  constexpr float kFar = 1e9f;
  return std::isnan(value) ? 0.0f : std::clamp(value, -kFar, kFar);
}

float Weight(float fraction) {
  return std::floor(fraction * 256.0f + 0.5f) / 256.0f;
}

// -1: the border.
int64_t Index(int64_t at, uint32_t size, Addressing addressing, bool normalized) {
  const int64_t last = int64_t{size} - 1;
  if (at >= 0 && at <= last) return at;
  switch (addressing) {
    case Addressing::kBorder:
      return -1;
    case Addressing::kWrap:
      if (normalized) return (at % size + size) % size;
      break;
    default:
      break;
  }
  return std::clamp<int64_t>(at, 0, last);
}

// In texels. Wrap and mirror are of normalized coordinates alone.
float InTexels(float at, uint32_t size, const Sampler& sampler, unsigned axis) {
  at = Tame(at);
  if (!sampler.normalized) return at;
  const float whole = std::floor(at);
  if (sampler.addressing[axis] == Addressing::kWrap) {
    at -= whole;
  } else if (sampler.addressing[axis] == Addressing::kMirror) {
    const bool odd = std::fmod(whole, 2.0f) != 0.0f;
    at = odd ? 1.0f - (at - whole) : at - whole;
  }
  return at * static_cast<float>(size);
}

// Where a fetch lies: in one level, along the axes the shape has.
struct Place {
  const Level* level = nullptr;
  unsigned axes = 1;
  float at[3] = {};
  uint32_t sizes[3] = {1, 1, 1};
  uint64_t layer = 0;
  Addressing addressing[3] = {};
};

// The face a direction meets, and where.
uint32_t Face(const float* direction, float* s, float* t) {
  const float x = Tame(direction[0]), y = Tame(direction[1]), z = Tame(direction[2]);
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  float m = 1, u = 0, v = 0;
  uint32_t face = 0;
  if (ax > ay && ax > az) {
    face = x >= 0 ? 0 : 1;
    m = ax;
    u = x >= 0 ? -z : z;
    v = -y;
  } else if (ay > az) {
    face = y >= 0 ? 2 : 3;
    m = ay;
    u = x;
    v = y >= 0 ? z : -z;
  } else {
    face = z >= 0 ? 4 : 5;
    m = az;
    u = z >= 0 ? x : -x;
    v = -y;
  }
  if (m == 0) m = 1;
  *s = (u / m + 1.0f) / 2.0f;
  *t = (v / m + 1.0f) / 2.0f;
  return face;
}

unsigned Axes(Shape shape) {
  switch (shape) {
    case Shape::k1d:
    case Shape::kA1d:
      return 1;
    case Shape::k3d:
      return 3;
    default:
      return 2;
  }
}

Place Locate(const Object& object, const Fetch& fetch, const Level& level) {
  Place place;
  const Sampler& sampler = object.sampler;
  place.level = &level;
  place.axes = Axes(fetch.shape);
  const uint32_t sizes[3] = {level.width, level.height, level.depth};
  std::copy_n(sizes, 3, place.sizes);
  std::copy_n(sampler.addressing, 3, place.addressing);
  uint64_t layer = fetch.layer;
  if (fetch.shape == Shape::kCube || fetch.shape == Shape::kAcube) {
    float s = 0, t = 0;
    const uint32_t face = Face(fetch.at, &s, &t);
    place.at[0] = s * static_cast<float>(level.width);
    place.at[1] = t * static_cast<float>(level.height);
    std::fill_n(place.addressing, 3, Addressing::kClamp);
    const uint64_t cubes = std::max<uint64_t>(level.depth / 6, 1);
    layer = (fetch.shape == Shape::kAcube ? std::min(layer, cubes - 1) : 0) * 6 + face;
  } else {
    for (unsigned axis = 0; axis < place.axes; ++axis)
      place.at[axis] = InTexels(fetch.at[axis], sizes[axis], sampler, axis);
    if (fetch.shape != Shape::kA1d && fetch.shape != Shape::kA2d) layer = 0;
  }
  place.layer = place.axes == 3 ? 0 : std::min<uint64_t>(layer, level.depth - 1);
  return place;
}

Color Border(const Object& object) {
  Color color;
  for (int i = 0; i < 4; ++i) color[i] = std::bit_cast<uint32_t>(object.sampler.border[i]);
  return color;
}

Color TexelAt(const Object& object, const Place& place, const int64_t* at) {
  uint64_t offset = place.layer * place.level->slice;
  const uint64_t steps[3] = {object.texels.TexelBytes(), place.level->pitch, place.level->slice};
  for (unsigned axis = 0; axis < place.axes; ++axis) {
    const int64_t index =
        Index(at[axis], place.sizes[axis], place.addressing[axis], object.sampler.normalized);
    if (index < 0) return Border(object);
    offset += static_cast<uint64_t>(index) * steps[axis];
  }
  return ReadTexel(object, place.level->base + offset);
}

Color Nearest(const Object& object, const Place& place) {
  int64_t at[3] = {};
  for (unsigned axis = 0; axis < place.axes; ++axis)
    at[axis] = static_cast<int64_t>(std::floor(place.at[axis]));
  return TexelAt(object, place, at);
}

// Of the 2, 4 or 8 texels around, weighted.
Color Linear(const Object& object, const Place& place) {
  int64_t base[3] = {};
  float weights[3] = {};
  for (unsigned axis = 0; axis < place.axes; ++axis) {
    const float shifted = place.at[axis] - 0.5f, whole = std::floor(shifted);
    base[axis] = static_cast<int64_t>(whole);
    weights[axis] = Weight(shifted - whole);
  }
  float sum[4] = {};
  for (unsigned corner = 0; corner < 1u << place.axes; ++corner) {
    int64_t at[3] = {};
    float weight = 1;
    for (unsigned axis = 0; axis < place.axes; ++axis) {
      const bool high = (corner >> axis & 1) != 0;
      at[axis] = base[axis] + (high ? 1 : 0);
      weight *= high ? weights[axis] : 1.0f - weights[axis];
    }
    if (weight == 0) continue;  // what is not asked for may be infinite
    const Color color = TexelAt(object, place, at);
    // Out of registers: a color comes in two, and is slow to read as four words of memory.
    const auto halves = std::bit_cast<std::array<uint64_t, 2>>(color);
    for (unsigned i = 0; i < 4; ++i)
      sum[i] += weight * std::bit_cast<float>(static_cast<uint32_t>(halves[i / 2] >> (i % 2 * 32)));
  }
  Color color;
  for (int i = 0; i < 4; ++i) color[i] = std::bit_cast<uint32_t>(sum[i]);
  return color;
}

Color SampleLevel(const Object& object, const Fetch& fetch, size_t level) {
  const Place place = Locate(object, fetch, object.texels.levels[level]);
  return object.sampler.linear && !object.ReadsIntegers() ? Linear(object, place)
                                                          : Nearest(object, place);
}

float LevelOf(const Object& object, const Fetch& fetch) {
  if (!fetch.has_gradients) return fetch.level;
  const Level& base = object.texels.levels[0];
  const float sizes[3] = {static_cast<float>(base.width), static_cast<float>(base.height),
                          static_cast<float>(base.depth)};
  float dx = 0, dy = 0;
  for (unsigned axis = 0; axis < Axes(fetch.shape); ++axis) {
    const float scale = object.sampler.normalized ? sizes[axis] : 1.0f;
    dx += fetch.dx[axis] * scale * fetch.dx[axis] * scale;
    dy += fetch.dy[axis] * scale * fetch.dy[axis] * scale;
  }
  const float longest = std::sqrt(std::max(dx, dy));
  return longest > 0 ? std::log2(longest) : 0.0f;
}

Color Texel3(const Object& object, const Fetch& fetch) {
  const Texels& texels = object.texels;
  Place place;
  const auto last = static_cast<float>(texels.levels.size() - 1);
  place.level = &texels.levels[static_cast<size_t>(std::clamp(Tame(fetch.level), 0.0f, last))];
  place.axes = Axes(fetch.shape);
  place.sizes[0] = place.level->width;
  place.sizes[1] = place.level->height;
  place.sizes[2] = place.level->depth;
  std::copy_n(object.sampler.addressing, 3, place.addressing);
  const bool layered = fetch.shape == Shape::kA1d || fetch.shape == Shape::kA2d;
  place.layer = layered ? std::min<uint64_t>(fetch.layer, place.level->depth - 1) : 0;
  int64_t at[3] = {};
  for (unsigned axis = 0; axis < place.axes; ++axis) {
    at[axis] = fetch.texel_at[axis];
    const bool outside = at[axis] < 0 || at[axis] >= int64_t{place.sizes[axis]};
    if (texels.is_linear && outside) return {};
  }
  return TexelAt(object, place, at);
}

}  // namespace

Color Sample(const Object& object, const Fetch& fetch) {
  if (fetch.integer_coordinates) return Texel3(object, fetch);
  const Sampler& sampler = object.sampler;
  const size_t levels = object.texels.levels.size();
  if (levels == 1) return SampleLevel(object, fetch, 0);
  float level = Tame(LevelOf(object, fetch) + sampler.bias);
  level = std::clamp(level, sampler.least_level, std::max(sampler.least_level, sampler.most_level));
  level = std::clamp(level, 0.0f, static_cast<float>(levels - 1));
  if (!sampler.mip_linear || object.ReadsIntegers())
    return SampleLevel(object, fetch, static_cast<size_t>(std::floor(level + 0.5f)));
  const auto lower = static_cast<size_t>(std::floor(level));
  const float weight = Weight(level - std::floor(level));
  const Color fine = SampleLevel(object, fetch, lower);
  if (weight == 0 || lower + 1 >= levels) return fine;
  const Color coarse = SampleLevel(object, fetch, lower + 1);
  Color color;
  for (int i = 0; i < 4; ++i) {
    color[i] = std::bit_cast<uint32_t>(std::bit_cast<float>(fine[i]) * (1.0f - weight) +
                                       std::bit_cast<float>(coarse[i]) * weight);
  }
  return color;
}

Color Gather(const Object& object, const Fetch& fetch, unsigned channel) {
  const Place place = Locate(object, fetch, object.texels.levels[0]);
  int64_t base[3] = {};
  for (unsigned axis = 0; axis < 2; ++axis)
    base[axis] = static_cast<int64_t>(std::floor(place.at[axis] - 0.5f));
  constexpr int kOrder[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  Color gathered{};
  for (int i = 0; i < 4; ++i) {
    const int64_t at[3] = {base[0] + kOrder[i][0], base[1] + kOrder[i][1], 0};
    gathered[i] = TexelAt(object, place, at)[channel];
  }
  return gathered;
}

}  // namespace farcall::cpu_device::texture
