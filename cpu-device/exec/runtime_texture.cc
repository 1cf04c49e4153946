// SPDX-License-Identifier: Apache-2.0
// What compiled texture and surface instructions call.
#include "cpu-device/exec/runtime_texture.h"

#include <bit>
#include <cstring>

#include "cpu-device/exec/fault.h"

namespace farcall::cpu_device {
namespace {

using texture::Outside;
using texture::Shape;

const texture::Object& ObjectOf(uint64_t handle, bool is_surface, uint32_t line) {
  const texture::Object* object = texture::Find(handle);
  if (object == nullptr || object->is_surface != is_surface) {
    RaiseFault(ExecStatus::kIllegalAddress, "0x%llx is no %s object (PTX line %u)",
               static_cast<unsigned long long>(handle), is_surface ? "surface" : "texture", line);
  }
  return *object;
}

uint8_t* AddressOf(const texture::Object& object, uint32_t what, uint32_t line,
                   const uint32_t* in) {
  uint32_t bytes = what >> kSurfaceBytesShift;
  auto x = static_cast<int32_t>(in[kTextureX]);
  if ((what & kSurfaceFormatted) != 0) {  // counted in texels
    bytes = object.texels.TexelBytes();
    x = static_cast<int32_t>(static_cast<uint32_t>(x) * bytes);
  }
  if ((static_cast<uint32_t>(x) & (std::min(bytes, 16u) - 1)) != 0 && std::has_single_bit(bytes)) {
    RaiseFault(ExecStatus::kMisaligned,
               "misaligned %u-byte access to a surface at %d (PTX line %u)", bytes, x, line);
  }
  const Outside outside = (what & kSurfaceClamp) != 0  ? Outside::kClamp
                          : (what & kSurfaceZero) != 0 ? Outside::kZero
                                                       : Outside::kTrap;
  uint8_t* address =
      texture::SurfaceAddress(object, static_cast<Shape>(what & 15), in[kTextureLayer], x,
                              static_cast<int32_t>(in[kTextureX + 1]),
                              static_cast<int32_t>(in[kTextureX + 2]), bytes, outside);
  if (address == nullptr && outside == Outside::kTrap) {
    RaiseFault(ExecStatus::kIllegalAddress,
               "surface access outside of it, at byte %d (PTX line %u)", x, line);
  }
  return address;
}

extern "C" {

void fc_rt_tex(uint64_t handle, uint32_t what, uint32_t line, const uint32_t* in, uint32_t* out) {
  const texture::Object& object = ObjectOf(handle, false, line);
  texture::Fetch fetch;
  fetch.shape = static_cast<Shape>(what & 15);
  fetch.integer_coordinates = (what & kTextureIntegers) != 0;
  fetch.has_gradients = (what & kTextureGradients) != 0;
  fetch.layer = in[kTextureLayer];
  for (int i = 0; i < 3; ++i) {
    fetch.at[i] = std::bit_cast<float>(in[kTextureX + i]);
    fetch.texel_at[i] = static_cast<int32_t>(in[kTextureX + i]);
    fetch.dx[i] = std::bit_cast<float>(in[kTextureDx + i]);
    fetch.dy[i] = std::bit_cast<float>(in[kTextureDy + i]);
  }
  fetch.level = fetch.integer_coordinates
                    ? static_cast<float>(static_cast<int32_t>(in[kTextureLevel]))
                    : std::bit_cast<float>(in[kTextureLevel]);
  const texture::Color color =
      (what & kTextureGather) != 0
          ? texture::Gather(object, fetch, what >> kTextureChannelShift & 3)
          : texture::Sample(object, fetch);
  memcpy(out, color.data(), sizeof(color));
}

void fc_rt_suld(uint64_t handle, uint32_t what, uint32_t line, const uint32_t* in, void* data) {
  const uint32_t bytes = what >> kSurfaceBytesShift;
  const uint8_t* address = AddressOf(ObjectOf(handle, true, line), what, line, in);
  if (address == nullptr)
    memset(data, 0, bytes);
  else
    memcpy(data, address, bytes);
}

void fc_rt_sust(uint64_t handle, uint32_t what, uint32_t line, const uint32_t* in,
                const void* data) {
  const texture::Object& object = ObjectOf(handle, true, line);
  const uint32_t bytes = what >> kSurfaceBytesShift;
  uint8_t* address = AddressOf(object, what, line, in);
  if (address == nullptr) return;
  if ((what & kSurfaceFormatted) == 0) {
    memcpy(address, data, bytes);
    return;
  }
  texture::Color color{};
  memcpy(color.data(), data, bytes);
  texture::StoreTexel(object, address, color);
}

uint32_t fc_rt_txq(uint64_t handle, uint32_t query, uint32_t level, uint32_t line) {
  const texture::Object* object = texture::Find(handle);
  if (object == nullptr) ObjectOf(handle, false, line);
  return texture::Ask(*object, static_cast<texture::Query>(query), level);
}

}  // extern "C"

const RuntimeSymbol kSymbols[] = {
    {"fc_rt_tex", reinterpret_cast<void*>(fc_rt_tex)},
    {"fc_rt_suld", reinterpret_cast<void*>(fc_rt_suld)},
    {"fc_rt_sust", reinterpret_cast<void*>(fc_rt_sust)},
    {"fc_rt_txq", reinterpret_cast<void*>(fc_rt_txq)},
};

}  // namespace

const RuntimeSymbol* TextureSymbols(unsigned* count) {
  *count = sizeof(kSymbols) / sizeof(kSymbols[0]);
  return kSymbols;
}

}  // namespace farcall::cpu_device
