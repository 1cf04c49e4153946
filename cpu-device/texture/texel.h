// SPDX-License-Identifier: Apache-2.0
// One texel of memory as four channels, and back.
#pragma once

#include "cpu-device/texture/texture.h"

namespace farcall::cpu_device::texture {

float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
// As an object reads it: floats, or integers; channels the format lacks are 0, the fourth is 1.
Color ReadTexel(const Object& object, const uint8_t* at);

}  // namespace farcall::cpu_device::texture
