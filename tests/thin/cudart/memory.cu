// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

void Attributes(const char* what, const void* pointer) {
  cudaPointerAttributes found;
  std::memset(&found, 0x5A, sizeof(found));
  std::printf("attributes of %s\n", what);
  T(cudaPointerGetAttributes(&found, pointer));
  V(found.type);
  V(found.device);
  V(found.devicePointer == pointer);
  V(found.devicePointer == nullptr);
  V(found.hostPointer == pointer);
  V(found.hostPointer == nullptr);
}

void Host() {
  void *host = nullptr, *on_device = nullptr;
  unsigned flags = 0;
  T(cudaMallocHost(&host, 4096));
  Attributes("page-locked", host);
  T(cudaHostGetFlags(&flags, host));
  V(flags);
  T(cudaHostGetDevicePointer(&on_device, host, 0));
  V(on_device == host);
  T(cudaHostGetDevicePointer(&on_device, host, 7));
  T(cudaFreeHost(host));
  T(cudaFreeHost(nullptr));
  T(cudaFreeHost(&flags));
  T(cudaMallocHost(&host, 0));
  V(host == nullptr);
  T(cudaMallocHost(static_cast<void**>(nullptr), 16));
  T(cudaHostAlloc(&host, 100, cudaHostAllocMapped | cudaHostAllocPortable));
  T(cudaHostGetFlags(&flags, host));
  V(flags);
  T(cudaFreeHost(host));
  T(cudaHostAlloc(&host, 100, 0xFF00));
  T(cudaHostAlloc(&host, 0, 0));
  void* own = std::aligned_alloc(4096, 8192);
  Attributes("unknown", own);
  T(cudaHostRegister(own, 8192, cudaHostRegisterDefault));
  T(cudaHostRegister(own, 8192, cudaHostRegisterDefault));
  Attributes("registered", own);
  T(cudaHostGetFlags(&flags, own));
  V(flags);
  T(cudaHostUnregister(own));
  T(cudaHostUnregister(own));
  T(cudaHostRegister(nullptr, 8192, 0));
  T(cudaHostRegister(own, 0, 0));
  T(cudaHostGetFlags(&flags, own));
  T(cudaHostGetDevicePointer(&on_device, own, 0));
  std::free(own);
}

}  // namespace

void TraceMemory() {
  void *p = nullptr, *q = nullptr;
  T(cudaMalloc(&p, 1000));
  V(p != nullptr);
  Attributes("device", p);
  Attributes("inside device", static_cast<char*>(p) + 10);
  Attributes("null", nullptr);
  T(cudaPointerGetAttributes(nullptr, p));
  T(cudaFree(p));
  T(cudaFree(p));
  T(cudaFree(nullptr));
  T(cudaFree(reinterpret_cast<void*>(0x1234)));
  q = reinterpret_cast<void*>(16);
  T(cudaMalloc(&q, 0));
  V(q == nullptr);
  T(cudaMalloc(static_cast<void**>(nullptr), 16));
  T(cudaMalloc(&q, size_t{1} << 60));
  T(cudaMalloc(&q, ~size_t{0}));
  size_t pitch = 1, free = 0, total = 0;
  T(cudaMallocPitch(&p, &pitch, 100, 10));
  V(pitch);
  T(cudaFree(p));
  T(cudaMallocPitch(&p, &pitch, 0, 10));
  V(p == nullptr);
  V(pitch);
  T(cudaMallocPitch(&p, &pitch, 1000, 0));
  V(pitch);
  T(cudaMallocPitch(&p, nullptr, 100, 10));
  T(cudaMallocPitch(static_cast<void**>(nullptr), &pitch, 100, 10));
  cudaPitchedPtr pitched = {};
  T(cudaMalloc3D(&pitched, make_cudaExtent(100, 10, 4)));
  V(pitched.pitch);
  V(pitched.xsize);
  V(pitched.ysize);
  T(cudaFree(pitched.ptr));
  T(cudaMalloc3D(nullptr, make_cudaExtent(100, 10, 4)));
  T(cudaMalloc3D(&pitched, make_cudaExtent(0, 10, 4)));
  V(pitched.ptr == nullptr);
  V(pitched.pitch);
  T(cudaMemGetInfo(&free, &total));
  V(total);
  V(free <= total);
  T(cudaMemGetInfo(nullptr, &total));
  T(cudaMemGetInfo(&free, nullptr));
  T(cudaMallocManaged(&p, 4096, cudaMemAttachGlobal));
  Attributes("managed", p);
  cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
  T(cudaMemAdvise(p, 4096, cudaMemAdviseSetReadMostly, here));
  int mostly = -1;
  T(cudaMemRangeGetAttribute(&mostly, 4, cudaMemRangeAttributeReadMostly, p, 4096));
  V(mostly);
  T(cudaMemRangeGetAttribute(&mostly, 3, cudaMemRangeAttributeReadMostly, p, 4096));
  T(cudaMemPrefetchAsync(p, 4096, here, 0, 0));
  T(cudaMemPrefetchAsync(p, 4096, here, 3, 0));
  T(cudaStreamAttachMemAsync(0, p, 0, cudaMemAttachSingle));
  T(cudaDeviceSynchronize());
  T(cudaFree(p));
  T(cudaMallocManaged(&p, 0, cudaMemAttachGlobal));
  T(cudaMallocManaged(&p, 16, 77));
  T(cudaMallocManaged(static_cast<void**>(nullptr), 16, 1));
  Host();
  cudaIpcMemHandle_t handle;
  T(cudaMalloc(&p, 1 << 21));
  T(cudaIpcGetMemHandle(nullptr, p));
  T(cudaIpcGetMemHandle(&handle, &handle));
  T(cudaIpcCloseMemHandle(p));
  T(cudaIpcOpenMemHandle(nullptr, handle, 1));
  T(cudaFree(p));
}
