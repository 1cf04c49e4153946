// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

__global__ void Read(cudaTextureObject_t texture, float* out) {
  out[threadIdx.x] = tex2D<float>(texture, threadIdx.x + 0.5f, 1.5f);
}

void PrintTexture(cudaTextureObject_t texture) {
  cudaResourceDesc resource = {};
  cudaTextureDesc desc = {};
  cudaResourceViewDesc view = {};
  T(cudaGetTextureObjectResourceDesc(&resource, texture));
  V(resource.resType);
  if (resource.resType == cudaResourceTypeLinear) {
    V(resource.res.linear.sizeInBytes);
    V(resource.res.linear.desc.x);
    V(resource.res.linear.desc.f);
  }
  if (resource.resType == cudaResourceTypePitch2D) {
    V(resource.res.pitch2D.width);
    V(resource.res.pitch2D.height);
    V(resource.res.pitch2D.pitchInBytes);
  }
  T(cudaGetTextureObjectTextureDesc(&desc, texture));
  for (int i = 0; i < 3; ++i) V(desc.addressMode[i]);
  V(desc.filterMode);
  V(desc.readMode);
  V(desc.sRGB);
  V(desc.normalizedCoords);
  V(desc.maxAnisotropy);
  V(desc.mipmapFilterMode);
  V(desc.borderColor[1]);
  V(desc.disableTrilinearOptimization);
  V(desc.seamlessCubemap);
  T(cudaGetTextureObjectResourceViewDesc(&view, texture));
}

void Modes(float* device) {
  struct Kind {
    int bits;
    cudaChannelFormatKind kind;
  };
  for (Kind k : {Kind{8, cudaChannelFormatKindUnsigned}, Kind{16, cudaChannelFormatKindSigned},
                 Kind{32, cudaChannelFormatKindUnsigned}, Kind{16, cudaChannelFormatKindFloat},
                 Kind{32, cudaChannelFormatKindFloat}}) {
    for (int read = 0; read < 2; ++read) {
      for (int filter = 0; filter < 2; ++filter) {
        for (int normalized = 0; normalized < 2; ++normalized) {
          cudaResourceDesc resource = {};
          resource.resType = cudaResourceTypePitch2D;
          resource.res.pitch2D.devPtr = device;
          resource.res.pitch2D.desc = cudaCreateChannelDesc(k.bits, 0, 0, 0, k.kind);
          resource.res.pitch2D.width = 8;
          resource.res.pitch2D.height = 2;
          resource.res.pitch2D.pitchInBytes = 512;
          cudaTextureDesc desc = {};
          desc.readMode = static_cast<cudaTextureReadMode>(read);
          desc.filterMode = static_cast<cudaTextureFilterMode>(filter);
          desc.normalizedCoords = normalized;
          cudaTextureObject_t texture = 0;
          cudaError_t code = cudaCreateTextureObject(&texture, &resource, &desc, nullptr);
          std::printf("texture of %d bits kind %d, read %d filter %d normalized %d -> %s %s\n",
                      k.bits, k.kind, read, filter, normalized, cudaGetErrorName(code),
                      cudaGetErrorName(cudaGetLastError()));
          if (code == cudaSuccess) cudaDestroyTextureObject(texture);
        }
      }
    }
  }
}

}  // namespace

void TraceTextures() {
  float *device = nullptr, *out = nullptr, host[64];
  for (int i = 0; i < 64; ++i) host[i] = i * 0.5f;
  T(cudaMalloc(&device, 4096));
  T(cudaMalloc(&out, 256));
  T(cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  cudaTextureDesc desc = {};
  cudaTextureObject_t texture = 0;
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = device;
  resource.res.linear.desc = cudaCreateChannelDesc<float>();
  resource.res.linear.sizeInBytes = 256;
  desc.readMode = cudaReadModeElementType;
  T(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  PrintTexture(texture);
  T(cudaDestroyTextureObject(texture));
  T(cudaCreateTextureObject(nullptr, &resource, &desc, nullptr));
  T(cudaCreateTextureObject(&texture, nullptr, &desc, nullptr));
  T(cudaCreateTextureObject(&texture, &resource, nullptr, nullptr));
  resource.resType = static_cast<cudaResourceType>(14);
  T(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  auto format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  T(cudaMallocArray(&array, &format, 8, 4, cudaArraySurfaceLoadStore));
  T(cudaMemcpy2DToArray(array, 0, 0, host, 32, 32, 4, cudaMemcpyHostToDevice));
  resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
  desc.borderColor[1] = 3;
  desc.maxAnisotropy = 2;
  T(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  PrintTexture(texture);
  Read<<<1, 8>>>(texture, out);
  T(cudaGetLastError());
  T(cudaMemcpy(host, out, 32, cudaMemcpyDeviceToHost));
  for (int i : {0, 1, 7}) std::printf("  read %g\n", host[i]);
  T(cudaDestroyTextureObject(texture));
  T(cudaDestroyTextureObject(0));
  cudaSurfaceObject_t surface = 0;
  T(cudaCreateSurfaceObject(&surface, &resource));
  cudaResourceDesc found = {};
  T(cudaGetSurfaceObjectResourceDesc(&found, surface));
  V(found.resType);
  V(found.res.array.array == array);
  T(cudaGetSurfaceObjectResourceDesc(nullptr, surface));
  T(cudaDestroySurfaceObject(surface));
  T(cudaCreateSurfaceObject(nullptr, &resource));
  T(cudaCreateSurfaceObject(&surface, nullptr));
  T(cudaFreeArray(array));
  Modes(device);
  T(cudaFree(device));
  T(cudaFree(out));
}
