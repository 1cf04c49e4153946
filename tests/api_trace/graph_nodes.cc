// SPDX-License-Identifier: Apache-2.0
// Graphs made by hand, clones, updates, ways to instantiate; what a capture answers on the way.
#include "tests/api_trace/trace.h"

namespace {

void TraceNodes() {
  CUgraph graph = nullptr, child = nullptr, clone = nullptr;
  CUgraphNode first = nullptr, second = nullptr, record = nullptr, wait = nullptr, nested = nullptr,
              found = nullptr;
  CUevent event = nullptr;
  CUgraphNodeType type{};
  CUgraphExec executable = nullptr;
  CUstream stream = nullptr;
  size_t nodes = 0;
  unsigned enabled = 9;
  T("", cuEventCreate, &event, 0u);
  T("", cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  T("", cuGraphCreate, &graph, 0u);
  T("null", cuGraphCreate, nullptr, 0u);
  T("bad flags", cuGraphCreate, &child, 5u);
  T("", cuGraphCreate, &child, 0u);
  T("", cuGraphAddEmptyNode, &first, graph, nullptr, 0);
  T("", cuGraphAddEmptyNode, &second, graph, &first, 1);
  T("null", cuGraphAddEmptyNode, nullptr, graph, nullptr, 0);
  T("no list", cuGraphAddEmptyNode, &found, graph, nullptr, 1);
  T("", cuGraphAddEventRecordNode, &record, graph, &second, 1, event);
  T("", cuGraphAddEventWaitNode, &wait, graph, &record, 1, event);
  T("", cuGraphAddEmptyNode, &nested, child, nullptr, 0);
  T("another graph's", cuGraphAddEmptyNode, &found, graph, &nested, 1);
  T("", cuGraphAddChildGraphNode, &nested, graph, nullptr, 0, child);
  T("", cuGraphAddDependencies, graph, &first, &nested, 1);
  T("again", cuGraphAddDependencies, graph, &first, &nested, 1);
  T("", cuGraphRemoveDependencies, graph, &first, &nested, 1);
  T("again", cuGraphRemoveDependencies, graph, &first, &nested, 1);
  T("a circle", cuGraphAddDependencies, graph, &wait, &first, 1);
  T("", cuGraphNodeGetType, record, &type);
  V("type", "%d", static_cast<int>(type));
  T("", cuGraphNodeGetType, nested, &type);
  V("type", "%d", static_cast<int>(type));
  T("null", cuGraphNodeGetType, record, nullptr);
  T("", cuGraphGetNodes, graph, nullptr, &nodes);
  V("nodes", "%zu", nodes);
  T("", cuGraphClone, &clone, graph);
  T("null", cuGraphClone, nullptr, graph);
  T("", cuGraphNodeFindInClone, &found, first, clone);
  T("not in it", cuGraphNodeFindInClone, &found, first, child);
  T("", cuGraphDestroyNode, nested);
  T("", cuGraphGetNodes, graph, nullptr, &nodes);
  V("nodes", "%zu", nodes);
  T("", cuGraphInstantiateWithFlags, &executable, graph, 0ull);
  cuuint64_t flags = 9;
  T("", cuGraphExecGetFlags, executable, &flags);
  V("flags", "%llu", static_cast<unsigned long long>(flags));
  T("not a kernel", cuGraphNodeGetEnabled, executable, first, &enabled);
  T("not a kernel", cuGraphNodeSetEnabled, executable, first, 0u);
  T("not kernels", cuGraphKernelNodeCopyAttributes, first, second);
  T("null", cuGraphKernelNodeCopyAttributes, nullptr, nullptr);
  T("", cuGraphUpload, executable, stream);
  T("", cuGraphLaunch, executable, stream);
  T("own", cuGraphUpload_ptsz, executable, nullptr);
  T("own", cuGraphLaunch_ptsz, executable, nullptr);
  T("", cuCtxSynchronize);
  T("null", cuGraphInstantiateWithFlags, nullptr, graph, 0ull);
  T("", cuGraphExecDestroy, executable);
  T("destroyed", cuGraphLaunch, executable, stream);
  T("destroyed", cuGraphExecDestroy, executable);
  T("null", cuGraphLaunch, nullptr, stream);
  T("", cuGraphDestroy, clone);
  T("", cuGraphDestroy, child);
  T("", cuGraphDestroy, graph);
  T("destroyed", cuGraphDestroy, graph);
  T("destroyed", cuGraphAddEmptyNode, &found, graph, nullptr, 0);
  T("", cuEventDestroy_v2, event);
  T("", cuStreamDestroy_v2, stream);
}

void TraceInstantiations(CUgraph graph, CUstream stream) {
  CUgraphExec executable = nullptr;
  CUgraphNode bad_node = nullptr;
  char log[64] = {};
  T("", cuGraphInstantiate_v2, &executable, graph, &bad_node, log, sizeof(log));
  T("", cuGraphLaunch, executable, stream);
  T("", cuStreamSynchronize, stream);
  T("", cuGraphExecDestroy, executable);
  T("", cuGraphInstantiate, &executable, graph, nullptr, nullptr, 0);
  T("", cuGraphExecDestroy, executable);
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  parameters.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  parameters.hUploadStream = stream;
  T("upload", cuGraphInstantiateWithParams, &executable, graph, &parameters);
  V("result", "%d", static_cast<int>(parameters.result_out));
  T("", cuGraphExecDestroy, executable);
  parameters = {};
  T("own", cuGraphInstantiateWithParams_ptsz, &executable, graph, &parameters);
  T("null", cuGraphInstantiateWithParams, &executable, graph, nullptr);
  CUgraphExecUpdateResultInfo info{};
  T("", cuGraphExecUpdate_v2, executable, graph, &info);
  V("result", "%d", static_cast<int>(info.result));
  CUgraph other = nullptr;
  CUgraphNode node = nullptr;
  T("", cuGraphCreate, &other, 0u);
  T("", cuGraphAddEmptyNode, &node, other, nullptr, 0);
  T("another shape", cuGraphExecUpdate_v2, executable, other, &info);
  V("result", "%d", static_cast<int>(info.result));
  T("null", cuGraphExecUpdate_v2, executable, graph, nullptr);
  T("", cuGraphDestroy, other);
  T("", cuGraphExecDestroy, executable);
}

void TraceCaptureInfo(CUstream stream) {
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 9;
  T("", cuStreamGetCaptureInfo, stream, &status, &id);
  V("status", "%d", static_cast<int>(status));
  V("has an id", "%d", id != 0);
  T("", cuStreamGetCaptureInfo_v2, stream, &status, &id, nullptr, nullptr, nullptr);
  T("", cuStreamGetCaptureInfo_v3, stream, &status, &id, nullptr, nullptr, nullptr, nullptr);
  T("null status", cuStreamGetCaptureInfo_v2, stream, nullptr, &id, &graph, &dependencies, &count);
  T("null status", cuStreamGetCaptureInfo_v3, stream, nullptr, &id, &graph, &dependencies, &edges,
    &count);
  T("own", cuStreamGetCaptureInfo_ptsz, nullptr, &status, &id);
  V("status", "%d", static_cast<int>(status));
  T("own", cuStreamGetCaptureInfo_v2_ptsz, nullptr, &status, &id, nullptr, nullptr, nullptr);
  T("own", cuStreamGetCaptureInfo_v3_ptsz, nullptr, &status, &id, nullptr, nullptr, nullptr,
    nullptr);
  T("own", cuStreamIsCapturing_ptsz, nullptr, &status);
  T("null", cuStreamIsCapturing, stream, nullptr);
  T("bad", cuStreamIsCapturing, reinterpret_cast<CUstream>(0x77), &status);
}

void TraceCapture(const char* ptx) {
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  CUdeviceptr a = 0, none = 0;
  CUstream stream = nullptr, other = nullptr;
  CUevent fork = nullptr, join = nullptr;
  CUgraph graph = nullptr;
  unsigned value = 3, count = 8;
  size_t nodes = 0;
  T("", cuModuleLoadData, &module, ptx);
  T("", cuModuleGetFunction, &fill, module, "fill");
  T("", cuMemAlloc_v2, &a, 4096);
  T("", cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  T("", cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  T("", cuEventCreate, &fork, CU_EVENT_DISABLE_TIMING);
  T("", cuEventCreate, &join, CU_EVENT_DISABLE_TIMING);
  void* parameters[] = {&a, &value, &count};
  TraceCaptureInfo(stream);
  T("older", cuStreamBeginCapture, stream);
  TraceCaptureInfo(stream);
  T("captured", cuLaunchKernel, fill, 1, 1, 1, 8, 1, 1, 0u, stream, parameters, nullptr);
  T("captured", cuEventRecord, fork, stream);
  T("captured", cuStreamWaitEvent, other, fork, 0u);
  T("captured", cuMemsetD32Async, a, 1, 16, other);
  T("captured", cuEventRecord, join, other);
  T("captured", cuStreamWaitEvent, stream, join, 0u);
  T("captured", cuMemcpyDtoDAsync_v2, a + 2048, a, 64, stream);
  T("not the origin", cuStreamEndCapture, other, &graph);
  T("", cuStreamEndCapture, stream, &graph);
  if (graph != nullptr) {
    T("", cuGraphGetNodes, graph, nullptr, &nodes);
    V("nodes", "%zu", nodes);
    TraceInstantiations(graph, stream);
    T("", cuGraphDestroy, graph);
  }
  T("relaxed", cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  T("relaxed", cuMemAlloc_v2, &none, 64);
  T("query in capture", cuStreamQuery, stream);
  T("", cuStreamEndCapture, stream, &graph);
  T("own", cuStreamBeginCapture_v2_ptsz, nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL);
  T("global mode", cuMemAlloc_v2, &none, 64);
  T("own", cuStreamEndCapture_ptsz, nullptr, &graph);
  T("own, older", cuStreamBeginCapture_ptsz, CU_STREAM_PER_THREAD);
  T("own", cuStreamEndCapture_ptsz, nullptr, &graph);
  T("unjoined", cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  T("unjoined", cuEventRecord, fork, stream);
  T("unjoined", cuStreamWaitEvent, other, fork, 0u);
  T("unjoined", cuMemsetD32Async, a, 1, 16, other);
  T("unjoined", cuStreamEndCapture, stream, &graph);
  T("bad mode", cuStreamBeginCapture_v2, stream, static_cast<CUstreamCaptureMode>(7));
  T("null", cuStreamEndCapture, stream, nullptr);
  CUstreamCaptureMode mode = static_cast<CUstreamCaptureMode>(7);
  T("bad mode", cuThreadExchangeStreamCaptureMode, &mode);
  T("null", cuThreadExchangeStreamCaptureMode, nullptr);
  T("", cuEventDestroy_v2, fork);
  T("", cuEventDestroy_v2, join);
  T("", cuStreamDestroy_v2, other);
  T("", cuStreamDestroy_v2, stream);
  T("", cuMemFree_v2, a);
  T("", cuModuleUnload, module);
}

}  // namespace

void TraceGraphNodes(const char* ptx) {
  TraceNodes();
  TraceCapture(ptx);
}
