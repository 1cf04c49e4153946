// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

__device__ int g_numbers[16];
__constant__ int g_constants[8];
__managed__ int g_managed = 41;

unsigned Sum(const void* from, size_t count) {
  unsigned sum = 0;
  for (size_t i = 0; i < count; ++i) sum = sum * 31 + static_cast<const unsigned char*>(from)[i];
  return sum;
}

void Linear(char* host, char* device) {
  char back[256] = {};
  T(cudaMemcpy(device, host, 256, cudaMemcpyHostToDevice));
  T(cudaMemcpy(back, device, 256, cudaMemcpyDeviceToHost));
  V(Sum(back, 256));
  T(cudaMemcpy(device + 128, device, 128, cudaMemcpyDeviceToDevice));
  T(cudaMemcpy(back, device, 256, cudaMemcpyDefault));
  V(Sum(back, 256));
  T(cudaMemcpy(back, host, 100, cudaMemcpyHostToHost));
  V(Sum(back, 256));
  T(cudaMemcpy(back, host, 256, cudaMemcpyDefault));
  T(cudaMemcpy(back, device, 256, static_cast<cudaMemcpyKind>(9)));
  T(cudaMemcpy(back, device, 0, static_cast<cudaMemcpyKind>(9)));
  T(cudaMemcpy(nullptr, device, 0, cudaMemcpyDeviceToHost));
  T(cudaMemcpy(device, nullptr, 16, cudaMemcpyHostToDevice));
  T(cudaMemcpy(nullptr, host, 16, cudaMemcpyHostToDevice));
  T(cudaMemcpy(back, host, 16, cudaMemcpyDeviceToHost));
  T(cudaMemcpyAsync(device, host, 200, cudaMemcpyHostToDevice, 0));
  T(cudaMemcpyAsync(back, device, 256, cudaMemcpyDeviceToHost, 0));
  T(cudaStreamSynchronize(0));
  V(Sum(back, 256));
  T(cudaMemcpyAsync(device, device + 128, 128, cudaMemcpyDeviceToDevice, 0));
  T(cudaMemcpyAsync(device, host, 16, cudaMemcpyDefault, 0));
  T(cudaMemcpyAsync(back, host, 16, cudaMemcpyHostToHost, 0));
  T(cudaMemcpyAsync(back, host, 16, static_cast<cudaMemcpyKind>(-1), 0));
  T(cudaMemcpyAsync(back, device, 0, cudaMemcpyDeviceToHost, 0));
  T(cudaMemcpyPeer(device, 0, device + 128, 0, 64));
  T(cudaMemcpyPeer(device, 0, device + 128, 8, 64));
  T(cudaMemcpyPeerAsync(device, 0, device + 128, 0, 64, 0));
  T(cudaMemcpyPeerAsync(device, 7, device + 128, 0, 64, 0));
  T(cudaDeviceSynchronize());
}

void Rows(char* host) {
  char* device = nullptr;
  size_t pitch = 0;
  char back[256] = {};
  T(cudaMallocPitch(&device, &pitch, 10, 8));
  T(cudaMemcpy2D(device, pitch, host, 16, 10, 8, cudaMemcpyHostToDevice));
  T(cudaMemcpy2D(back, 20, device, pitch, 10, 8, cudaMemcpyDeviceToHost));
  V(Sum(back, 256));
  T(cudaMemcpy2DAsync(device, pitch, device + 5, pitch, 5, 8, cudaMemcpyDeviceToDevice, 0));
  T(cudaMemcpy2DAsync(back, 20, device, pitch, 10, 8, cudaMemcpyDefault, 0));
  T(cudaDeviceSynchronize());
  V(Sum(back, 256));
  T(cudaMemcpy2D(back, 4, device, pitch, 10, 8, cudaMemcpyDeviceToHost));
  T(cudaMemcpy2D(back, 4, device, pitch, 10, 1, cudaMemcpyDeviceToHost));
  T(cudaMemcpy2D(back, 20, device, pitch, 0, 8, cudaMemcpyDeviceToHost));
  T(cudaMemcpy2D(back, 20, device, pitch, 10, 8, static_cast<cudaMemcpyKind>(77)));
  T(cudaMemset2D(device, pitch, 7, 10, 4));
  T(cudaMemset2DAsync(device + 4 * pitch, pitch, 8, 5, 4, 0));
  T(cudaMemset2D(device, 4, 7, 10, 4));
  T(cudaMemset2D(device, pitch, 7, 0, 4));
  T(cudaMemcpy2D(back, 20, device, pitch, 10, 8, cudaMemcpyDeviceToHost));
  V(Sum(back, 256));
  T(cudaFree(device));
}

void Boxes(char* host) {
  cudaPitchedPtr device = {};
  char back[512] = {};
  T(cudaMalloc3D(&device, make_cudaExtent(8, 4, 3)));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(host, 8, 8, 4);
  copy.dstPtr = device;
  copy.extent = make_cudaExtent(8, 4, 3);
  copy.kind = cudaMemcpyHostToDevice;
  T(cudaMemcpy3D(&copy));
  T(cudaMemset3D(device, 5, make_cudaExtent(3, 2, 2)));
  T(cudaMemset3DAsync(device, 6, make_cudaExtent(2, 4, 2), 0));
  T(cudaMemset3D(device, 5, make_cudaExtent(0, 2, 2)));
  T(cudaMemset3D(device, 5, make_cudaExtent(9999, 2, 2)));
  copy.srcPtr = device;
  copy.dstPtr = make_cudaPitchedPtr(back, 10, 8, 5);
  copy.kind = cudaMemcpyDeviceToHost;
  copy.srcPos = make_cudaPos(1, 1, 0);
  copy.extent = make_cudaExtent(7, 3, 3);
  T(cudaMemcpy3DAsync(&copy, 0));
  T(cudaDeviceSynchronize());
  V(Sum(back, 512));
  T(cudaMemcpy3D(nullptr));
  T(cudaMemcpy3DAsync(nullptr, 0));
  copy.kind = static_cast<cudaMemcpyKind>(12);
  T(cudaMemcpy3D(&copy));
  copy.kind = cudaMemcpyDeviceToHost;
  copy.extent.width = 0;
  T(cudaMemcpy3D(&copy));
  copy.extent.width = 200;
  T(cudaMemcpy3D(&copy));
  copy.extent.width = 7;
  copy.srcPtr.ptr = nullptr;
  T(cudaMemcpy3D(&copy));
  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = device;
  peer.dstPtr = device;
  peer.dstPos = make_cudaPos(4, 0, 0);
  peer.extent = make_cudaExtent(4, 2, 2);
  T(cudaMemcpy3DPeer(&peer));
  T(cudaMemcpy3DPeerAsync(&peer, 0));
  T(cudaMemcpy3DPeer(nullptr));
  peer.dstDevice = 4;
  T(cudaMemcpy3DPeer(&peer));
  T(cudaFree(device.ptr));
}

void Symbols(char* host) {
  void* address = nullptr;
  size_t size = 0;
  int numbers[16], other = 0;
  for (int i = 0; i < 16; ++i) numbers[i] = i * i;
  T(cudaGetSymbolAddress(&address, g_numbers));
  T(cudaGetSymbolSize(&size, g_numbers));
  V(size);
  T(cudaGetSymbolSize(&size, g_constants));
  V(size);
  T(cudaGetSymbolSize(&size, g_managed));
  V(size);
  T(cudaGetSymbolAddress(&address, other));
  T(cudaGetSymbolSize(&size, other));
  T(cudaMemcpyToSymbol(g_numbers, numbers, sizeof(numbers)));
  T(cudaMemcpyToSymbol(g_numbers, numbers, 8, 60));
  T(cudaMemcpyToSymbol(g_numbers, numbers, 4, 60));
  T(cudaMemcpyToSymbol(g_numbers, numbers, 4, 0, cudaMemcpyDeviceToHost));
  T(cudaMemcpyToSymbol(other, numbers, 4));
  T(cudaMemcpyToSymbolAsync(g_constants, numbers, 32, 0, cudaMemcpyHostToDevice, 0));
  std::memset(numbers, 0, sizeof(numbers));
  T(cudaMemcpyFromSymbol(numbers, g_numbers, sizeof(numbers)));
  V(Sum(numbers, sizeof(numbers)));
  T(cudaMemcpyFromSymbolAsync(numbers, g_constants, 32, 0, cudaMemcpyDeviceToHost, 0));
  T(cudaMemcpyFromSymbol(numbers, g_constants, 32, 4));
  T(cudaMemcpyFromSymbol(numbers, g_constants, 4, 4, cudaMemcpyHostToDevice));
  T(cudaDeviceSynchronize());
  V(Sum(numbers, sizeof(numbers)));
  V(g_managed);
  g_managed = 43;
  T(cudaMemcpyFromSymbol(&other, g_managed, 4));
  V(other);
}

}  // namespace

void TraceCopies() {
  char host[256];
  for (int i = 0; i < 256; ++i) host[i] = static_cast<char>(i * 7 + 3);
  char* device = nullptr;
  T(cudaMalloc(&device, 256));
  Linear(host, device);
  T(cudaMemset(device, 3, 100));
  T(cudaMemset(device, 3, 0));
  T(cudaMemset(nullptr, 3, 10));
  T(cudaMemset(host, 3, 10));
  T(cudaMemsetAsync(device, 4, 50, 0));
  T(cudaMemsetAsync(nullptr, 4, 0, 0));
  char back[256];
  T(cudaMemcpy(back, device, 256, cudaMemcpyDeviceToHost));
  V(Sum(back, 256));
  T(cudaFree(device));
  Rows(host);
  Boxes(host);
  Symbols(host);
}
