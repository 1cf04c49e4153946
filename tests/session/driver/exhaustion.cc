// SPDX-License-Identifier: Apache-2.0
// Out of memory by every call that takes some: CUDA's own error, nothing sticks to the context, and
// what was there keeps its bytes. The server gives 128 MiB.
#include <string>
#include <vector>

#include "driver.h"

namespace {

constexpr size_t kTooMuch = 256u << 20;
constexpr size_t kBeyondReason = 1ull << 45;
constexpr size_t kKeptBytes = 1 << 20;

CUdeviceptr g_kept = 0;

// What a refusal must leave as it was.
void StillRight(const char* after) {
  std::vector<unsigned> home(kKeptBytes / 4);
  CHECK(D(cuCtxSynchronize)());
  CHECK(D(cuMemcpyDtoH_v2)(home.data(), g_kept, kKeptBytes));
  for (unsigned value : home) {
    if (value == 0x5a5a1234) continue;
    std::printf("after %s: %x\n", after, value);
    std::exit(1);
  }
  CUdeviceptr fits = 0;
  CHECK(D(cuMemAlloc_v2)(&fits, 4 << 20));
  CHECK(D(cuMemsetD8_v2)(fits, 1, 4 << 20));
  CHECK(D(cuMemFree_v2)(fits));
}

#define REFUSED(call)                     \
  do {                                    \
    CODE(CUDA_ERROR_OUT_OF_MEMORY, call); \
    StillRight(#call);                    \
  } while (0)

void Linear() {
  CUdeviceptr pointer = 0;
  size_t pitch = 0;
  for (size_t bytes : {kTooMuch, kBeyondReason}) {
    REFUSED(D(cuMemAlloc_v2)(&pointer, bytes));
    REFUSED(D(cuMemAllocManaged)(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
  }
  REFUSED(D(cuMemAllocPitch_v2)(&pointer, &pitch, 1 << 16, 1 << 12, 4));
}

void StreamOrdered() {
  CUstream stream = nullptr;
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  CHECK(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CHECK(D(cuMemPoolCreate)(&pool, &properties));
  for (size_t bytes : {kTooMuch, kBeyondReason}) {
    REFUSED(D(cuMemAllocAsync)(&pointer, bytes, stream));
    REFUSED(D(cuMemAllocFromPoolAsync)(&pointer, bytes, pool, stream));
  }
  // As much as there is, piece by piece, and again once it is back.
  for (int round = 0; round < 2; ++round) {
    std::vector<CUdeviceptr> pieces;
    CUresult status = CUDA_SUCCESS;
    while ((status = D(cuMemAllocAsync)(&pointer, 8 << 20, stream)) == CUDA_SUCCESS)
      pieces.push_back(pointer);
    CODE(CUDA_ERROR_OUT_OF_MEMORY, status);
    EXPECT(pieces.size() >= 12 && pieces.size() < 16);
    for (CUdeviceptr piece : pieces) CHECK(D(cuMemFreeAsync)(piece, stream));
    CHECK(D(cuStreamSynchronize)(stream));
  }
  CHECK(D(cuMemPoolDestroy)(pool));
  CHECK(D(cuStreamDestroy_v2)(stream));
  StillRight("pools");
}

void Physical() {
  CUmemGenericAllocationHandle memory = 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  REFUSED(D(cuMemCreate)(&memory, kTooMuch, &properties, 0));
  REFUSED(D(cuMemCreate)(&memory, kBeyondReason, &properties, 0));
  CUdeviceptr range = 0;
  REFUSED(D(cuMemAddressReserve)(&range, 1ull << 50, 0, 0, 0));
}

void Host() {
  void* pointer = nullptr;
  REFUSED(D(cuMemHostAlloc)(&pointer, kBeyondReason, 0));
  REFUSED(D(cuMemHostAlloc)(&pointer, kBeyondReason, CU_MEMHOSTALLOC_DEVICEMAP));
  REFUSED(D(cuMemAllocHost_v2)(&pointer, kBeyondReason));
}

void Arrays() {
  CUarray array = nullptr;
  CUmipmappedArray mipmapped = nullptr;
  CUDA_ARRAY_DESCRIPTOR flat{};
  flat.Width = flat.Height = 8192;
  flat.Format = CU_AD_FORMAT_FLOAT;
  flat.NumChannels = 4;
  REFUSED(D(cuArrayCreate_v2)(&array, &flat));
  CUDA_ARRAY3D_DESCRIPTOR solid{};
  solid.Width = solid.Height = solid.Depth = 512;
  solid.Format = CU_AD_FORMAT_FLOAT;
  solid.NumChannels = 1;
  REFUSED(D(cuArray3DCreate_v2)(&array, &solid));
  REFUSED(D(cuMipmappedArrayCreate)(&mipmapped, &solid, 4));
}

// Variables larger than the device. (A quota does not count them: docs/reference/client.md.)
void Images() {
  const std::string head = ".version 7.0\n.target sm_70\n.address_size 64\n";
  const std::string big = head + ".visible .global .align 4 .b8 big[1099511627776];\n" +
                          ".visible .entry nothing() { ret; }\n";
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  REFUSED(D(cuModuleLoadData)(&module, big.c_str()));
  REFUSED(D(cuModuleLoadDataEx)(&module, big.c_str(), 0, nullptr, nullptr));
  // A library may be loaded late: then the question that needs it meets the error.
  CUresult loaded =
      D(cuLibraryLoadData)(&library, big.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (loaded == CUDA_SUCCESS) {
    CUdeviceptr pointer = 0;
    size_t bytes = 0;
    REFUSED(D(cuLibraryGetGlobal)(&pointer, &bytes, library, "big"));
    CHECK(D(cuLibraryUnload)(library));
  } else {
    EXPECT(loaded == CUDA_ERROR_OUT_OF_MEMORY);
  }
  StillRight("images");
}

void GraphMemory() {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = kTooMuch;
  CHECK(D(cuGraphCreate)(&graph, 0));
  REFUSED(D(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &parameters));
  // The graph takes another node instead, and runs.
  parameters.bytesize = 1 << 20;
  CUgraphNode free = nullptr;
  CUgraphExec exec = nullptr;
  CHECK(D(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &parameters));
  CHECK(D(cuGraphAddMemFreeNode)(&free, graph, &node, 1, parameters.dptr));
  CHECK(D(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  CHECK(D(cuGraphLaunch)(exec, nullptr));
  CHECK(D(cuCtxSynchronize)());
  CHECK(D(cuGraphExecDestroy)(exec));
  CHECK(D(cuGraphDestroy)(graph));

  // In a capture: the refused call leaves the capture as it was.
  CUstream stream = nullptr;
  CUdeviceptr pointer = 0;
  CHECK(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(D(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(D(cuMemsetD32Async)(g_kept, 0x5a5a1234, kKeptBytes / 4, stream));
  CODE(CUDA_ERROR_OUT_OF_MEMORY, D(cuMemAllocAsync)(&pointer, kTooMuch, stream));
  CHECK(D(cuStreamEndCapture)(stream, &graph));
  CHECK(D(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  CHECK(D(cuGraphLaunch)(exec, stream));
  CHECK(D(cuStreamSynchronize)(stream));
  CHECK(D(cuGraphExecDestroy)(exec));
  CHECK(D(cuGraphDestroy)(graph));
  CHECK(D(cuStreamDestroy_v2)(stream));
  StillRight("a capture");
}

// With the memory gone to the last byte, what takes none of it is still made, or refused as it is.
void SmallThings() {
  std::vector<CUdeviceptr> pieces;
  for (size_t bytes = 64 << 20; bytes >= (64 << 10); bytes /= 2) {
    CUdeviceptr pointer = 0;
    while (D(cuMemAlloc_v2)(&pointer, bytes) == CUDA_SUCCESS) pieces.push_back(pointer);
  }
  std::vector<CUstream> streams;
  std::vector<CUevent> events;
  for (int i = 0; i < 500; ++i) {
    CUstream stream = nullptr;
    CUresult status = D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
    EXPECT(status == CUDA_SUCCESS || status == CUDA_ERROR_OUT_OF_MEMORY);
    if (status == CUDA_SUCCESS) streams.push_back(stream);
  }
  for (int i = 0; i < 20000; ++i) {
    CUevent event = nullptr;
    CUresult status = D(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
    EXPECT(status == CUDA_SUCCESS || status == CUDA_ERROR_OUT_OF_MEMORY);
    if (status == CUDA_SUCCESS) events.push_back(event);
  }
  EXPECT(!streams.empty() && !events.empty());
  for (CUstream stream : streams) CHECK(D(cuStreamSynchronize)(stream));
  for (CUevent event : events) CHECK(D(cuEventDestroy_v2)(event));
  for (CUstream stream : streams) CHECK(D(cuStreamDestroy_v2)(stream));
  for (CUdeviceptr piece : pieces) CHECK(D(cuMemFree_v2)(piece));
  StillRight("streams and events");
}

}  // namespace

void Exhaustion() {
  CHECK(D(cuMemAlloc_v2)(&g_kept, kKeptBytes));
  CHECK(D(cuMemsetD32_v2)(g_kept, 0x5a5a1234, kKeptBytes / 4));
  Linear();
  StreamOrdered();
  Physical();
  Host();
  Arrays();
  Images();
  GraphMemory();
  SmallThings();
  CHECK(D(cuMemFree_v2)(g_kept));
}
