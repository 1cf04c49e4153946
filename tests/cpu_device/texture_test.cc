// SPDX-License-Identifier: Apache-2.0
// Fetches against the programming guide's formulas, in double precision and texel by texel.
#include "cpu-device/texture/texture.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "cpu-device/texture/texel.h"

namespace farcall::cpu_device::texture {
namespace {

struct Image {
  int width, height;
  std::vector<float> texels;
  Object object;

  Image(int w, int h, Addressing addressing, bool linear, bool normalized)
      : width(w), height(h), texels(static_cast<size_t>(w) * h) {
    std::mt19937 random(static_cast<unsigned>(w * 131 + h));
    for (float& texel : texels) texel = static_cast<float>(random() % 1000) / 8;
    object.texels.texel = Texel::kFloat;
    object.texels.dimensions = 2;
    Level level;
    level.base = reinterpret_cast<uint8_t*>(texels.data());
    level.pitch = level.slice = static_cast<uint64_t>(w) * 4;
    level.width = static_cast<uint32_t>(w);
    level.height = static_cast<uint32_t>(h);
    object.texels.levels = {level};
    for (Addressing& one : object.sampler.addressing) one = addressing;
    object.sampler.linear = linear;
    object.sampler.normalized = normalized;
    object.sampler.border = {-5, 0, 0, 0};
  }

  // The guide: which texel index `i` of an axis is, or -1.
  int Texel1(int i, int n) const {
    switch (object.sampler.addressing[0]) {
      case Addressing::kBorder:
        return i < 0 || i >= n ? -1 : i;
      case Addressing::kWrap:
        if (object.sampler.normalized) return ((i % n) + n) % n;
        break;
      default:
        break;
    }
    return i < 0 ? 0 : i >= n ? n - 1 : i;
  }
  double At(int x, int y) const {
    x = Texel1(x, width);
    y = Texel1(y, height);
    return x < 0 || y < 0 ? -5 : texels[static_cast<size_t>(y * width + x)];
  }
  double InTexels(float at, int n) const {
    if (!object.sampler.normalized) return at;
    const double whole = std::floor(at);
    double part = at;
    if (object.sampler.addressing[0] == Addressing::kWrap) part = at - whole;
    if (object.sampler.addressing[0] == Addressing::kMirror)
      part = std::fmod(whole, 2) != 0 ? 1 - (at - whole) : at - whole;
    return part * n;
  }
  double Expected(float u, float v) const {
    const double x = InTexels(u, width), y = InTexels(v, height);
    if (!object.sampler.linear)
      return At(static_cast<int>(std::floor(x)), static_cast<int>(std::floor(y)));
    const double xb = x - 0.5, yb = y - 0.5;
    const int i = static_cast<int>(std::floor(xb)), j = static_cast<int>(std::floor(yb));
    const double a = std::floor((xb - i) * 256 + 0.5) / 256;
    const double b = std::floor((yb - j) * 256 + 0.5) / 256;
    return (1 - a) * (1 - b) * At(i, j) + a * (1 - b) * At(i + 1, j) + (1 - a) * b * At(i, j + 1) +
           a * b * At(i + 1, j + 1);
  }
  float Fetched(float u, float v) const {
    Fetch fetch;
    fetch.shape = Shape::k2d;
    fetch.at[0] = u;
    fetch.at[1] = v;
    return std::bit_cast<float>(Sample(object, fetch)[0]);
  }
};

// Coordinates are multiples of 1/1024 (or of a power of two of a texel), so that both ways are
// exact up to the sum.
TEST(Texture, FiltersAndAddressesAsTheGuideSays) {
  std::mt19937 random(7);
  for (Addressing addressing :
       {Addressing::kWrap, Addressing::kClamp, Addressing::kMirror, Addressing::kBorder}) {
    for (int mode = 0; mode < 4; ++mode) {
      const bool linear = (mode & 1) != 0, normalized = (mode & 2) != 0;
      const Image image(8, 4, addressing, linear, normalized);
      for (int i = 0; i < 2000; ++i) {
        const float scale = normalized ? 1.0f / 1024 : 1.0f / 64;
        const float u = static_cast<float>(static_cast<int>(random() % 4096) - 1536) * scale;
        const float v = static_cast<float>(static_cast<int>(random() % 4096) - 1536) * scale;
        ASSERT_NEAR(image.Fetched(u, v), image.Expected(u, v), 1e-4)
            << "mode " << mode << " addressing " << static_cast<int>(addressing) << " at " << u
            << ", " << v;
      }
    }
  }
}

TEST(Texture, TakesAnyCoordinate) {
  const Image image(8, 4, Addressing::kWrap, true, true);
  for (float odd : {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e20f}) {
    const float value = image.Fetched(odd, odd);
    EXPECT_TRUE(value >= 0 && value <= 125) << odd;
  }
}

TEST(Texture, HalvesGoThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0) continue;  // NaNs
    ASSERT_EQ(FloatToHalf(HalfToFloat(half)), half);
  }
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00);
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3C00);  // halfway: to even
  EXPECT_EQ(FloatToHalf(1.0f + 3 * 0x1p-11f), 0x3C02);
}

TEST(Texture, HandlesEndAndAreNotTheNextOne) {
  auto make = [] {
    auto object = std::make_unique<Object>();
    object->texels.levels.emplace_back();
    return object;
  };
  const uint64_t first = Register(make());
  ASSERT_NE(first, 0u);
  EXPECT_NE(Find(first), nullptr);
  EXPECT_FALSE(Unregister(first, true));  // it is no surface
  EXPECT_TRUE(Unregister(first, false));
  EXPECT_EQ(Find(first), nullptr);
  EXPECT_FALSE(Unregister(first, false));
  EXPECT_NE(Register(make()), first);
  for (uint64_t hostile : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 32, uint64_t{0xFFFFFFFF}})
    EXPECT_EQ(Find(hostile), nullptr);
}

TEST(Texture, SurfacesStayInside) {
  std::vector<uint8_t> memory(64);
  Object object;
  object.texels.texel = Texel::kU8;
  Level level;
  level.base = memory.data();
  level.pitch = 16;
  level.slice = 64;
  level.width = 10;
  level.height = 4;
  object.texels.levels = {level};
  auto offset = [&](int x, int y, uint32_t bytes, Outside outside) {
    const uint8_t* at = SurfaceAddress(object, Shape::k2d, 0, x, y, 0, bytes, outside);
    return at == nullptr ? -1 : static_cast<int>(at - memory.data());
  };
  EXPECT_EQ(offset(3, 2, 1, Outside::kTrap), 35);
  EXPECT_EQ(offset(8, 0, 4, Outside::kZero), -1);  // bytes 8 to 11 of ten
  EXPECT_EQ(offset(8, 0, 4, Outside::kClamp), 6);
  EXPECT_EQ(offset(-1, 3, 1, Outside::kZero), -1);
  EXPECT_EQ(offset(INT32_MAX, INT32_MIN, 1, Outside::kClamp), 9);
  EXPECT_EQ(offset(0, 4, 1, Outside::kTrap), -1);
}

}  // namespace
}  // namespace farcall::cpu_device::texture
