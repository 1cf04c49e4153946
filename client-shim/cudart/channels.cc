// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cudart/channels.h"

namespace farcall::cudart {
namespace {

struct Plain {
  CUarray_format format;
  cudaChannelFormatKind kind;
  int bits;
};
constexpr Plain kPlain[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, cudaChannelFormatKindUnsigned, 8},
    {CU_AD_FORMAT_UNSIGNED_INT16, cudaChannelFormatKindUnsigned, 16},
    {CU_AD_FORMAT_UNSIGNED_INT32, cudaChannelFormatKindUnsigned, 32},
    {CU_AD_FORMAT_SIGNED_INT8, cudaChannelFormatKindSigned, 8},
    {CU_AD_FORMAT_SIGNED_INT16, cudaChannelFormatKindSigned, 16},
    {CU_AD_FORMAT_SIGNED_INT32, cudaChannelFormatKindSigned, 32},
    {CU_AD_FORMAT_HALF, cudaChannelFormatKindFloat, 16},
    {CU_AD_FORMAT_FLOAT, cudaChannelFormatKindFloat, 32},
};

// Formats with a kind of their own: `channels` of `bits` each as the runtime describes them.
struct Special {
  CUarray_format format;
  cudaChannelFormatKind kind;
  int bits;
  unsigned channels;
};
constexpr Special kSpecial[] = {
    {CU_AD_FORMAT_NV12, cudaChannelFormatKindNV12, 8, 3},
    {CU_AD_FORMAT_UNORM_INT8X1, cudaChannelFormatKindUnsignedNormalized8X1, 8, 1},
    {CU_AD_FORMAT_UNORM_INT8X2, cudaChannelFormatKindUnsignedNormalized8X2, 8, 2},
    {CU_AD_FORMAT_UNORM_INT8X4, cudaChannelFormatKindUnsignedNormalized8X4, 8, 4},
    {CU_AD_FORMAT_UNORM_INT16X1, cudaChannelFormatKindUnsignedNormalized16X1, 16, 1},
    {CU_AD_FORMAT_UNORM_INT16X2, cudaChannelFormatKindUnsignedNormalized16X2, 16, 2},
    {CU_AD_FORMAT_UNORM_INT16X4, cudaChannelFormatKindUnsignedNormalized16X4, 16, 4},
    {CU_AD_FORMAT_SNORM_INT8X1, cudaChannelFormatKindSignedNormalized8X1, 8, 1},
    {CU_AD_FORMAT_SNORM_INT8X2, cudaChannelFormatKindSignedNormalized8X2, 8, 2},
    {CU_AD_FORMAT_SNORM_INT8X4, cudaChannelFormatKindSignedNormalized8X4, 8, 4},
    {CU_AD_FORMAT_SNORM_INT16X1, cudaChannelFormatKindSignedNormalized16X1, 16, 1},
    {CU_AD_FORMAT_SNORM_INT16X2, cudaChannelFormatKindSignedNormalized16X2, 16, 2},
    {CU_AD_FORMAT_SNORM_INT16X4, cudaChannelFormatKindSignedNormalized16X4, 16, 4},
    {CU_AD_FORMAT_BC1_UNORM, cudaChannelFormatKindUnsignedBlockCompressed1, 8, 4},
    {CU_AD_FORMAT_BC1_UNORM_SRGB, cudaChannelFormatKindUnsignedBlockCompressed1SRGB, 8, 4},
    {CU_AD_FORMAT_BC2_UNORM, cudaChannelFormatKindUnsignedBlockCompressed2, 8, 4},
    {CU_AD_FORMAT_BC2_UNORM_SRGB, cudaChannelFormatKindUnsignedBlockCompressed2SRGB, 8, 4},
    {CU_AD_FORMAT_BC3_UNORM, cudaChannelFormatKindUnsignedBlockCompressed3, 8, 4},
    {CU_AD_FORMAT_BC3_UNORM_SRGB, cudaChannelFormatKindUnsignedBlockCompressed3SRGB, 8, 4},
    {CU_AD_FORMAT_BC4_UNORM, cudaChannelFormatKindUnsignedBlockCompressed4, 8, 1},
    {CU_AD_FORMAT_BC4_SNORM, cudaChannelFormatKindSignedBlockCompressed4, 8, 1},
    {CU_AD_FORMAT_BC5_UNORM, cudaChannelFormatKindUnsignedBlockCompressed5, 8, 2},
    {CU_AD_FORMAT_BC5_SNORM, cudaChannelFormatKindSignedBlockCompressed5, 8, 2},
    {CU_AD_FORMAT_BC6H_UF16, cudaChannelFormatKindUnsignedBlockCompressed6H, 16, 3},
    {CU_AD_FORMAT_BC6H_SF16, cudaChannelFormatKindSignedBlockCompressed6H, 16, 3},
    {CU_AD_FORMAT_BC7_UNORM, cudaChannelFormatKindUnsignedBlockCompressed7, 8, 4},
    {CU_AD_FORMAT_BC7_UNORM_SRGB, cudaChannelFormatKindUnsignedBlockCompressed7SRGB, 8, 4},
};

// x, then y, then z and w: each as wide as the first, or 0 from some point on.
unsigned CountOf(const cudaChannelFormatDesc& d) {
  const int bits[] = {d.x, d.y, d.z, d.w};
  unsigned count = 0;
  while (count < 4 && bits[count] != 0) {
    if (bits[count] != d.x) return 0;
    ++count;
  }
  for (unsigned i = count; i < 4; ++i)
    if (bits[i] != 0) return 0;
  return count;
}

bool IsBlocks(cudaChannelFormatKind kind) {
  return kind >= cudaChannelFormatKindUnsignedBlockCompressed1 &&
         kind <= cudaChannelFormatKindUnsignedBlockCompressed7SRGB;
}

}  // namespace

cudaError_t ToDriver(const cudaChannelFormatDesc& from, Channels* to) {
  const unsigned count = CountOf(from);
  for (const Special& row : kSpecial) {
    if (row.kind != from.f) continue;
    if (count != row.channels || from.x != row.bits) return cudaErrorInvalidChannelDescriptor;
    *to = {row.format, row.channels};
    return cudaSuccess;
  }
  if (count == 0 || count == 3) return cudaErrorInvalidChannelDescriptor;
  for (const Plain& row : kPlain) {
    if (row.kind != from.f || row.bits != from.x) continue;
    *to = {row.format, count};
    return cudaSuccess;
  }
  return cudaErrorInvalidChannelDescriptor;
}

cudaError_t FromDriver(const Channels& from, cudaChannelFormatDesc* to) {
  auto fill = [&](int bits, unsigned count, cudaChannelFormatKind kind) {
    *to = {count > 0 ? bits : 0, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0,
           kind};
    return cudaSuccess;
  };
  for (const Plain& row : kPlain)
    if (row.format == from.format) return fill(row.bits, from.count, row.kind);
  for (const Special& row : kSpecial)
    if (row.format == from.format) return fill(row.bits, row.channels, row.kind);
  return cudaErrorInvalidChannelDescriptor;
}

size_t BytesOf(CUarray_format format, unsigned channels) {
  for (const Plain& row : kPlain)
    if (row.format == format) return static_cast<size_t>(row.bits / 8) * channels;
  for (const Special& row : kSpecial)
    if (row.format == format && !IsBlocks(row.kind) && row.kind != cudaChannelFormatKindNV12)
      return static_cast<size_t>(row.bits / 8) * row.channels;
  return 0;
}

}  // namespace farcall::cudart
