// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/state/captured.h"

#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/objects/graph_memory.h"
#include "client-shim/cuda/objects/graph_params.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/graph_model.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/stream.h"

namespace farcall::client {

namespace {

CUresult CaptureNode(CUstream handle, const CUgraphNodeParams& params,
                     std::shared_ptr<GraphWork>* made) {
  Stream* stream = FindStream(handle);
  if (stream->capture.load() != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(AsHandle<CUgraph>(stream->capture_graph.load()));
  if (graph == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto work = std::make_shared<GraphWork>();
  CUresult status = MakeWork(params, graph.get(), work.get());
  if (status != CUDA_SUCCESS) return status;
  uint64_t wire = WireStream(handle, false, &status);
  GraphNode* node = nullptr;
  if (status == CUDA_SUCCESS) status = AddWork(graph.get(), {}, wire, work, &node);
  if (made != nullptr) *made = std::move(work);
  return status;
}

}  // namespace

CUresult CaptureEvent(CUstream stream, CUevent event, CUgraphNodeType type) {
  return CaptureNode(stream, EventParams(type, event), nullptr);
}

CUresult CaptureHostFunction(CUstream stream, CUhostFn function, void* user_data) {
  CUgraphNodeParams params = ParamsOfType(CU_GRAPH_NODE_TYPE_HOST);
  params.host = {function, user_data};
  return CaptureNode(stream, params, nullptr);
}

CUresult CaptureBox(CUstream stream, const CUDA_MEMCPY3D& copy, bool sync) {
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return CUDA_SUCCESS;
  if (sync) return RefuseOn(FindStream(stream));
  CUgraphNodeParams params = ParamsOfType(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyParams = copy;
  params.memcpy.copyCtx = AsCuda(CurrentContext());
  return CaptureNode(stream, params, nullptr);
}

CUresult CaptureCopy(CUstream stream, CUdeviceptr dst, CUdeviceptr src, size_t bytes, bool sync) {
  CUDA_MEMCPY3D copy{};
  bool from_device = IsDevicePointer(src), to_device = IsDevicePointer(dst);
  copy.srcMemoryType = from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.srcDevice = from_device ? src : 0;
  copy.dstDevice = to_device ? dst : 0;
  copy.srcHost = from_device ? nullptr : AsHandle<void*>(src);
  copy.dstHost = to_device ? nullptr : AsHandle<void*>(dst);
  copy.WidthInBytes = bytes;
  copy.srcPitch = copy.dstPitch = bytes;
  copy.srcHeight = copy.dstHeight = 1;
  copy.Height = copy.Depth = 1;
  return CaptureBox(stream, copy, sync);
}

CUresult CaptureAllocation(CUstream stream, CUdeviceptr* address, size_t bytes) {
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = ParamsOfType(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.alloc.poolProps.location.id = CurrentContext()->device;
  params.alloc.bytesize = bytes;
  std::shared_ptr<GraphWork> work;
  CUresult status = CaptureNode(stream, params, &work);
  if (status == CUDA_SUCCESS) *address = work->memory->address;
  return status;
}

// Memory from outside cannot be freed by a graph.
CUresult CaptureFree(CUstream stream, CUdeviceptr address) {
  if (GraphMemory::Find(address) == nullptr) return RefuseOn(FindStream(stream));
  CUgraphNodeParams params = ParamsOfType(CU_GRAPH_NODE_TYPE_MEM_FREE);
  params.free.dptr = address;
  return CaptureNode(stream, params, nullptr);
}

void AbandonCapture(Stream* stream, CUstream handle) {
  if (LeaveCapture(stream)) return;
  uint64_t graph = stream->capture_graph.load();
  bool owned = false;
  if (MayEndCapture(stream) == CUDA_SUCCESS) {
    FixedBody<16> body;
    CUresult status = CUDA_SUCCESS;
    body.Put<uint64_t>(WireStream(handle, false, &status));
    body.Put<uint64_t>(graph);
    status = RoundTrip(CallId::cuStreamEndCapture, body.bytes(), nullptr);
    EndCapture(stream, &owned);
    ForgetCaptured(graph, owned, status == CUDA_SUCCESS);
    return;
  }
  EndCapture(stream, &owned);
}

void ForgetCaptured(uint64_t handle, bool owned, bool made) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(AsHandle<CUgraph>(handle));
  if (graph == nullptr) return;
  graph->capturing = false;
  if (!owned) return;
  DropGraph(graph);
  if (!made) return;
  Builder body;
  body.Put<uint64_t>(handle);
  (void)PostGraph(CallId::cuGraphDestroy, body);
}

}  // namespace farcall::client
