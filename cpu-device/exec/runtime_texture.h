// SPDX-License-Identifier: Apache-2.0
// How compiled code hands over a texture instruction: words of arguments, and a word that says what
// to do. An ABI: kCodegenVersion changes with it.
#pragma once

#include <cstdint>

#include "cpu-device/exec/runtime.h"
#include "cpu-device/texture/texture.h"

namespace farcall::cpu_device {

// Words of the argument buffer. Coordinates and level are floats, or integers with
// kTextureIntegers.
enum TextureWord : uint32_t {
  kTextureLayer = 0,
  kTextureX = 1,
  kTextureLevel = 4,
  kTextureDx = 5,
  kTextureDy = 8,
  kTextureWords = 11,
};

// The low 4 bits are texture::Shape.
enum TextureFlags : uint32_t {
  kTextureIntegers = 1u << 4,
  kTextureGradients = 1u << 5,
  kTextureGather = 1u << 6,
  kTextureChannelShift = 8,
};
enum SurfaceFlags : uint32_t {
  kSurfaceClamp = 1u << 4,
  kSurfaceZero = 1u << 5,
  kSurfaceFormatted = 1u << 6,
  kSurfaceBytesShift = 8,
};

const RuntimeSymbol* TextureSymbols(unsigned* count);

}  // namespace farcall::cpu_device
