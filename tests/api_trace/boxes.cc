// SPDX-License-Identifier: Apache-2.0
// Two- and three-dimensional copies and fills, copies between contexts.
#include <cstring>
#include <vector>

#include "tests/api_trace/trace.h"

namespace {

struct Buffers {
  CUdeviceptr a = 0, b = 0;
  CUstream stream = nullptr;
  std::vector<unsigned char> up, down;
};

CUDA_MEMCPY2D Flat(const Buffers& buffers, bool from_host, bool to_host) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.srcHost = buffers.up.data();
  copy.srcDevice = buffers.a;
  copy.srcPitch = 64;
  copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstHost = const_cast<unsigned char*>(buffers.down.data());
  copy.dstDevice = buffers.b;
  copy.dstPitch = 64;
  copy.WidthInBytes = 24;
  copy.Height = 10;
  return copy;
}

CUDA_MEMCPY3D Box(const Buffers& buffers, bool from_host, bool to_host) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.srcHost = buffers.up.data();
  copy.srcDevice = buffers.a;
  copy.srcPitch = 32;
  copy.srcHeight = 8;
  copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstHost = const_cast<unsigned char*>(buffers.down.data());
  copy.dstDevice = buffers.b;
  copy.dstPitch = 32;
  copy.dstHeight = 8;
  copy.WidthInBytes = 20;
  copy.Height = 5;
  copy.Depth = 3;
  return copy;
}

void TraceFlat(Buffers& buffers) {
  T("", cuMemcpyHtoD_v2, buffers.a, buffers.up.data(), buffers.up.size());
  CUDA_MEMCPY2D copy = Flat(buffers, false, false);
  T("on the device", cuMemcpy2D_v2, &copy);
  T("on the device", cuMemcpy2DAsync_v2, &copy, buffers.stream);
  T("on the device", cuMemcpy2DUnaligned_v2, &copy);
  T("on the device", cuMemcpy2D_v2_ptds, &copy);
  T("on the device", cuMemcpy2DUnaligned_v2_ptds, &copy);
  T("on the device", cuMemcpy2DAsync_v2_ptsz, &copy, nullptr);
  copy.srcXInBytes = 8, copy.srcY = 2, copy.dstXInBytes = 4, copy.dstY = 1;
  T("an inner part", cuMemcpy2D_v2, &copy);
  copy = Flat(buffers, true, false);
  copy.srcXInBytes = 8, copy.srcY = 2, copy.dstXInBytes = 4, copy.dstY = 1;
  T("up, an inner part", cuMemcpy2D_v2, &copy);
  copy = Flat(buffers, false, true);
  T("down", cuMemcpy2DAsync_v2, &copy, buffers.stream);
  T("", cuStreamSynchronize, buffers.stream);
  V("row 3", "%d", std::memcmp(&buffers.down[192], &buffers.up[192], 24));
  copy.srcXInBytes = 8, copy.srcY = 2, copy.dstXInBytes = 4, copy.dstY = 1;
  T("down, an inner part", cuMemcpy2D_v2, &copy);
  V("moved", "%d", std::memcmp(&buffers.down[64 + 4], &buffers.up[128 + 8], 24));
  copy = Flat(buffers, true, true);
  T("host to host", cuMemcpy2D_v2, &copy);
  copy = Flat(buffers, true, false);
  copy.Height = 0;
  T("no rows", cuMemcpy2D_v2, &copy);
  copy.Height = 10, copy.WidthInBytes = 0;
  T("no columns", cuMemcpy2D_v2, &copy);
  copy.WidthInBytes = 24, copy.srcHost = nullptr;
  T("null source", cuMemcpy2D_v2, &copy);
  copy = Flat(buffers, false, false);
  copy.dstDevice = 0x100;
  T("wild", cuMemcpy2D_v2, &copy);
  copy = Flat(buffers, false, false);
  copy.Height = 1 << 20;
  T("past the end", cuMemcpy2D_v2, &copy);
  copy = Flat(buffers, false, false);
  copy.srcMemoryType = static_cast<CUmemorytype>(9);
  T("bad type", cuMemcpy2D_v2, &copy);
  copy = Flat(buffers, false, false);
  T("bad stream", cuMemcpy2DAsync_v2, &copy, reinterpret_cast<CUstream>(0x77));
  T("null", cuMemcpy2DAsync_v2, nullptr, buffers.stream);
  T("null", cuMemcpy2DUnaligned_v2, nullptr);
}

void TraceDeep(Buffers& buffers) {
  CUDA_MEMCPY3D copy = Box(buffers, true, false);
  T("up", cuMemcpy3D_v2, &copy);
  T("up", cuMemcpy3DAsync_v2, &copy, buffers.stream);
  T("up", cuMemcpy3D_v2_ptds, &copy);
  T("up", cuMemcpy3DAsync_v2_ptsz, &copy, nullptr);
  copy = Box(buffers, false, true);
  copy.srcDevice = buffers.b;
  T("down", cuMemcpy3D_v2, &copy);
  V("slice 2", "%d", std::memcmp(&buffers.down[2 * 256 + 32], &buffers.up[2 * 256 + 32], 20));
  copy.srcXInBytes = 4, copy.srcY = 1, copy.srcZ = 1;
  copy.dstXInBytes = 2, copy.dstY = 2, copy.dstZ = 1, copy.Depth = 2;
  T("down, an inner part", cuMemcpy3DAsync_v2, &copy, buffers.stream);
  T("", cuStreamSynchronize, buffers.stream);
  V("moved", "%d", std::memcmp(&buffers.down[256 + 64 + 2], &buffers.up[256 + 32 + 4], 16));
  copy = Box(buffers, false, false);
  T("on the device", cuMemcpy3D_v2, &copy);
  T("on the device", cuMemcpy3DAsync_v2, &copy, buffers.stream);
  copy.dstPitch = 8;
  T("pitch below width", cuMemcpy3D_v2, &copy);
  copy = Box(buffers, false, false);
  copy.dstHeight = 2;
  T("height below rows", cuMemcpy3D_v2, &copy);
  copy = Box(buffers, false, false);
  copy.Depth = 0;
  T("no depth", cuMemcpy3D_v2, &copy);
  copy.Depth = 1 << 20;
  T("past the end", cuMemcpy3D_v2, &copy);
  copy = Box(buffers, false, false);
  copy.srcDevice = 0x100;
  T("wild", cuMemcpy3DAsync_v2, &copy, buffers.stream);
  T("null", cuMemcpy3D_v2, nullptr);
}

void TraceFills(Buffers& buffers) {
  CUdeviceptr a = buffers.a;
  T("", cuMemsetD2D8Async, a, 64, 3, 16, 8, buffers.stream);
  T("", cuMemsetD2D16_v2, a, 64, 0x102, 8, 8);
  T("", cuMemsetD2D16Async, a, 64, 0x203, 8, 8, buffers.stream);
  T("", cuMemsetD2D32Async, a, 64, 4, 4, 8, buffers.stream);
  T("", cuMemsetD16Async, a, 0x1234, 10, buffers.stream);
  T("", cuStreamSynchronize, buffers.stream);
  T("odd", cuMemsetD2D16_v2, a + 1, 64, 1, 4, 4);
  T("odd", cuMemsetD2D32_v2, a + 2, 64, 1, 4, 4);
  T("odd pitch", cuMemsetD2D32_v2, a, 66, 1, 4, 4);
  T("pitch below width", cuMemsetD2D8_v2, a, 8, 1, 16, 4);
  T("past the end", cuMemsetD2D8_v2, a, 64, 1, 16, 1 << 20);
  T("wild", cuMemsetD2D8_v2, 0x100, 64, 1, 16, 4);
  T("no rows", cuMemsetD2D8_v2, a, 64, 1, 16, 0);
  T("no bytes", cuMemsetD8_v2, a, 1, 0);
  T("nothing nowhere", cuMemsetD8_v2, 0, 1, 0);
  T("bad stream", cuMemsetD8Async, a, 1, 4, reinterpret_cast<CUstream>(0x77));
  T("odd", cuMemsetD32Async, a + 1, 1, 4, buffers.stream);
  T("past the end", cuMemsetD16Async, a, 1, size_t{1} << 40, buffers.stream);
}

void TracePeer(Buffers& buffers) {
  CUcontext context = nullptr;
  T("", cuCtxGetCurrent, &context);
  T("", cuMemcpyPeer, buffers.b, context, buffers.a, context, 64);
  T("", cuMemcpyPeerAsync, buffers.b, context, buffers.a, context, 64, buffers.stream);
  T("", cuMemcpyPeer_ptds, buffers.b, context, buffers.a, context, 64);
  T("", cuMemcpyPeerAsync_ptsz, buffers.b, context, buffers.a, context, 64, nullptr);
  T("bad context", cuMemcpyPeer, buffers.b, reinterpret_cast<CUcontext>(0x77), buffers.a, context,
    64);
  T("past the end", cuMemcpyPeer, buffers.b, context, buffers.a, context, size_t{1} << 40);
}

}  // namespace

void TraceBoxes() {
  Buffers buffers;
  buffers.up.resize(4096);
  buffers.down.resize(4096);
  for (size_t i = 0; i < buffers.up.size(); ++i)
    buffers.up[i] = static_cast<unsigned char>(i * 11 + i / 256);
  T("", cuMemAlloc_v2, &buffers.a, 4096);
  T("", cuMemAlloc_v2, &buffers.b, 4096);
  T("", cuStreamCreate, &buffers.stream, CU_STREAM_NON_BLOCKING);
  TraceFlat(buffers);
  TraceDeep(buffers);
  TraceFills(buffers);
  TracePeer(buffers);
  T("", cuCtxSynchronize);
  T("", cuStreamDestroy, buffers.stream);
  T("destroyed stream", cuMemsetD8Async, buffers.a, 1, 4, buffers.stream);
  T("", cuMemFree_v2, buffers.a);
  T("freed", cuMemsetD8_v2, buffers.a, 1, 4);
  T("freed", cuMemcpyHtoD_v2, buffers.a, buffers.up.data(), 4);
  T("", cuMemFree_v2, buffers.b);
}
