// SPDX-License-Identifier: Apache-2.0
// The records of textures, field by field; both sides use these.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>

#include "proto/codec.h"

namespace farcall {

inline void PutTexture(Builder& out, const CUDA_TEXTURE_DESC& texture) {
  for (CUaddress_mode mode : texture.addressMode) out.Put<uint32_t>(mode);
  out.Put<uint32_t>(texture.filterMode);
  out.Put<uint32_t>(texture.flags);
  out.Put<uint32_t>(texture.maxAnisotropy);
  out.Put<uint32_t>(texture.mipmapFilterMode);
  out.Put<float>(texture.mipmapLevelBias);
  out.Put<float>(texture.minMipmapLevelClamp);
  out.Put<float>(texture.maxMipmapLevelClamp);
  for (float channel : texture.borderColor) out.Put<float>(channel);
}

inline CUDA_TEXTURE_DESC GetTexture(Reader& in) {
  CUDA_TEXTURE_DESC texture{};
  for (CUaddress_mode& mode : texture.addressMode)
    mode = static_cast<CUaddress_mode>(in.Get<uint32_t>());
  texture.filterMode = static_cast<CUfilter_mode>(in.Get<uint32_t>());
  texture.flags = in.Get<uint32_t>();
  texture.maxAnisotropy = in.Get<uint32_t>();
  texture.mipmapFilterMode = static_cast<CUfilter_mode>(in.Get<uint32_t>());
  texture.mipmapLevelBias = in.Get<float>();
  texture.minMipmapLevelClamp = in.Get<float>();
  texture.maxMipmapLevelClamp = in.Get<float>();
  for (float& channel : texture.borderColor) channel = in.Get<float>();
  return texture;
}

inline void PutView(Builder& out, const CUDA_RESOURCE_VIEW_DESC& view) {
  out.Put<uint32_t>(view.format);
  out.Put<uint64_t>(view.width);
  out.Put<uint64_t>(view.height);
  out.Put<uint64_t>(view.depth);
  out.Put<uint32_t>(view.firstMipmapLevel);
  out.Put<uint32_t>(view.lastMipmapLevel);
  out.Put<uint32_t>(view.firstLayer);
  out.Put<uint32_t>(view.lastLayer);
}

inline CUDA_RESOURCE_VIEW_DESC GetView(Reader& in) {
  CUDA_RESOURCE_VIEW_DESC view{};
  view.format = static_cast<CUresourceViewFormat>(in.Get<uint32_t>());
  view.width = in.Get<uint64_t>();
  view.height = in.Get<uint64_t>();
  view.depth = in.Get<uint64_t>();
  view.firstMipmapLevel = in.Get<uint32_t>();
  view.lastMipmapLevel = in.Get<uint32_t>();
  view.firstLayer = in.Get<uint32_t>();
  view.lastLayer = in.Get<uint32_t>();
  return view;
}

// What a texture or surface reads. `handle` is the wire's of an array or mipmap; linear memory has
// none.
struct ResourceRecord {
  uint32_t type = 0;
  uint64_t handle = 0;
  uint64_t address = 0;
  uint32_t format = 0, channels = 0;
  uint64_t width = 0;  // linear: bytes
  uint64_t height = 0, pitch = 0;
};

inline void PutResource(Builder& out, const ResourceRecord& resource) {
  out.Put<uint32_t>(resource.type);
  out.Put<uint64_t>(resource.handle);
  out.Put<uint64_t>(resource.address);
  out.Put<uint32_t>(resource.format);
  out.Put<uint32_t>(resource.channels);
  out.Put<uint64_t>(resource.width);
  out.Put<uint64_t>(resource.height);
  out.Put<uint64_t>(resource.pitch);
}

inline ResourceRecord GetResource(Reader& in) {
  ResourceRecord resource;
  resource.type = in.Get<uint32_t>();
  resource.handle = in.Get<uint64_t>();
  resource.address = in.Get<uint64_t>();
  resource.format = in.Get<uint32_t>();
  resource.channels = in.Get<uint32_t>();
  resource.width = in.Get<uint64_t>();
  resource.height = in.Get<uint64_t>();
  resource.pitch = in.Get<uint64_t>();
  return resource;
}

}  // namespace farcall
