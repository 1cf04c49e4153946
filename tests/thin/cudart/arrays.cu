// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

void PrintDesc(const cudaChannelFormatDesc& d) {
  std::printf("  desc %d %d %d %d kind %d\n", d.x, d.y, d.z, d.w, d.f);
}

void Info(cudaArray_t array) {
  cudaChannelFormatDesc desc = {};
  cudaExtent extent = {};
  unsigned flags = 9;
  T(cudaArrayGetInfo(&desc, &extent, &flags, array));
  PrintDesc(desc);
  std::printf("  extent %zu %zu %zu flags %u\n", extent.width, extent.height, extent.depth, flags);
  T(cudaGetChannelDesc(&desc, array));
  PrintDesc(desc);
}

void EveryKind() {
  for (int kind = 0; kind < 33; ++kind) {
    for (int bits : {0, 8, 16, 32, 64}) {
      for (int count = 1; count <= 4; ++count) {
        cudaChannelFormatDesc desc =
            cudaCreateChannelDesc(bits, count > 1 ? bits : 0, count > 2 ? bits : 0,
                                  count > 3 ? bits : 0, static_cast<cudaChannelFormatKind>(kind));
        cudaArray_t array = nullptr;
        cudaError_t code = cudaMallocArray(&array, &desc, 16, 8);
        std::printf("array of kind %d, %d x %d bits -> %s\n", kind, count, bits,
                    cudaGetErrorName(code));
        cudaGetLastError();
        if (code == cudaSuccess) {
          T(cudaGetChannelDesc(&desc, array));
          PrintDesc(desc);
          cudaFreeArray(array);
        }
      }
    }
  }
}

void Copies() {
  cudaArray_t array = nullptr, other = nullptr;
  auto desc = cudaCreateChannelDesc<int>();
  int host[48], back[48] = {};
  for (int i = 0; i < 48; ++i) host[i] = i * 3 + 1;
  T(cudaMallocArray(&array, &desc, 8, 6));
  T(cudaMallocArray(&other, &desc, 12, 4));
  T(cudaMemcpy2DToArray(array, 0, 0, host, 32, 32, 6, cudaMemcpyHostToDevice));
  T(cudaMemcpy2DFromArray(back, 32, array, 4, 1, 28, 5, cudaMemcpyDeviceToHost));
  for (int i : {0, 6, 7, 8, 38}) V(back[i]);
  T(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, 32, 4));
  T(cudaMemcpyToArray(array, 8, 1, host, 100, cudaMemcpyHostToDevice));
  std::memset(back, 0, sizeof(back));
  T(cudaMemcpyFromArray(back, array, 0, 0, sizeof(back), cudaMemcpyDeviceToHost));
  for (int i : {0, 9, 10, 17, 34, 35, 47}) V(back[i]);
  T(cudaMemcpyArrayToArray(other, 4, 0, array, 8, 1, 100));
  std::memset(back, 0, sizeof(back));
  T(cudaMemcpyFromArrayAsync(back, other, 0, 0, sizeof(back), cudaMemcpyDeviceToHost, 0));
  T(cudaDeviceSynchronize());
  for (int i : {0, 1, 2, 12, 13, 25, 26, 47}) V(back[i]);
  T(cudaMemcpyToArrayAsync(array, 0, 0, host, 32, cudaMemcpyHostToDevice, 0));
  T(cudaMemcpy2DToArrayAsync(array, 0, 0, host, 32, 32, 6, cudaMemcpyHostToDevice, 0));
  T(cudaMemcpy2DFromArrayAsync(back, 32, array, 0, 0, 32, 6, cudaMemcpyDeviceToHost, 0));
  T(cudaDeviceSynchronize());
  V(back[47]);
  T(cudaMemcpy2DToArray(nullptr, 0, 0, host, 32, 32, 6, cudaMemcpyHostToDevice));
  T(cudaMemcpy2DToArray(array, 0, 0, host, 3, 32, 6, cudaMemcpyHostToDevice));
  T(cudaMemcpy2DToArray(array, 0, 0, host, 32, 64, 6, cudaMemcpyHostToDevice));
  T(cudaMemcpy2DToArray(array, 0, 0, host, 32, 32, 6, static_cast<cudaMemcpyKind>(8)));
  T(cudaMemcpy2DFromArray(back, 32, nullptr, 0, 0, 32, 6, cudaMemcpyDeviceToHost));
  T(cudaMemcpyToArray(nullptr, 0, 0, host, 32, cudaMemcpyHostToDevice));
  T(cudaMemcpyToArray(array, 0, 0, host, 4000, cudaMemcpyHostToDevice));
  cudaMemcpy3DParms copy = {};
  copy.srcArray = array;
  copy.srcPos = make_cudaPos(2, 1, 0);
  copy.dstPtr = make_cudaPitchedPtr(back, 16, 4, 3);
  copy.extent = make_cudaExtent(4, 3, 1);
  copy.kind = cudaMemcpyDeviceToHost;
  T(cudaMemcpy3D(&copy));
  V(back[0]);
  V(back[5]);
  copy.dstArray = other;
  T(cudaMemcpy3D(&copy));
  copy.dstPtr = {};
  T(cudaMemcpy3D(&copy));
  T(cudaFreeArray(array));
  T(cudaFreeArray(other));
  T(cudaFreeArray(nullptr));
}

}  // namespace

void TraceArrays() {
  cudaArray_t array = nullptr;
  auto desc = cudaCreateChannelDesc<float4>();
  T(cudaMallocArray(&array, &desc, 16, 4));
  Info(array);
  T(cudaFreeArray(array));
  T(cudaMallocArray(&array, &desc, 16));
  Info(array);
  T(cudaFreeArray(array));
  T(cudaMallocArray(&array, &desc, 16, 4, cudaArraySurfaceLoadStore));
  Info(array);
  T(cudaFreeArray(array));
  T(cudaMallocArray(&array, nullptr, 16, 4));
  T(cudaMallocArray(nullptr, &desc, 16, 4));
  T(cudaMallocArray(&array, &desc, 0, 4));
  T(cudaMallocArray(&array, &desc, 16, 4, 0x8000));
  T(cudaMalloc3DArray(&array, &desc, make_cudaExtent(8, 4, 2)));
  Info(array);
  T(cudaFreeArray(array));
  T(cudaMalloc3DArray(&array, &desc, make_cudaExtent(8, 4, 2), cudaArrayLayered));
  Info(array);
  T(cudaFreeArray(array));
  T(cudaMalloc3DArray(&array, &desc, make_cudaExtent(8, 4, 6), cudaArrayCubemap));
  T(cudaMalloc3DArray(&array, &desc, make_cudaExtent(0, 0, 0)));
  T(cudaArrayGetInfo(nullptr, nullptr, nullptr, nullptr));
  T(cudaGetChannelDesc(&desc, nullptr));
  cudaMipmappedArray_t mipmap = nullptr;
  desc = cudaCreateChannelDesc<float>();
  T(cudaMallocMipmappedArray(&mipmap, &desc, make_cudaExtent(16, 16, 0), 3));
  T(cudaGetMipmappedArrayLevel(&array, mipmap, 1));
  Info(array);
  T(cudaGetMipmappedArrayLevel(&array, mipmap, 7));
  T(cudaGetMipmappedArrayLevel(nullptr, mipmap, 0));
  T(cudaFreeMipmappedArray(mipmap));
  T(cudaFreeMipmappedArray(nullptr));
  T(cudaMallocMipmappedArray(nullptr, &desc, make_cudaExtent(16, 16, 0), 3));
  size_t width = 0;
  T(cudaDeviceGetTexture1DLinearMaxWidth(&width, &desc, 0));
  V(width);
  T(cudaDeviceGetTexture1DLinearMaxWidth(&width, nullptr, 0));
  EveryKind();
  Copies();
}
