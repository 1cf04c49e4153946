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

// Nodes that do something: told again, changed, in the graph and in what was made from it.
// Long: the calls of one trace, in its order.
void TraceWork() {
  CUgraph graph = nullptr;
  CUgraphNode set_node = nullptr, copy_node = nullptr, ops_node = nullptr, any = nullptr;
  CUdeviceptr a = 0;
  CUstream stream = nullptr;
  CUgraphExec executable = nullptr;
  size_t count = 9;
  T("", cuMemAlloc_v2, &a, 4096);
  T("", cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  T("", cuGraphCreate, &graph, 0u);
  CUDA_MEMSET_NODE_PARAMS_v1 set{a, 0, 7, 4, 16, 1};
  T("", cuGraphAddMemsetNode, &set_node, graph, nullptr, 0, &set, nullptr);
  T("null", cuGraphAddMemsetNode, &any, graph, nullptr, 0, nullptr, nullptr);
  set.elementSize = 3;
  T("bad element", cuGraphAddMemsetNode, &any, graph, nullptr, 0, &set, nullptr);
  set.elementSize = 4;
  set.dst = a + 2;
  T("not aligned", cuGraphAddMemsetNode, &any, graph, nullptr, 0, &set, nullptr);
  T("not aligned", cuGraphMemsetNodeSetParams, set_node, &set);
  set.dst = a;
  set.value = 8;
  T("", cuGraphMemsetNodeSetParams, set_node, &set);
  set = {};
  T("", cuGraphMemsetNodeGetParams, set_node, &set);
  V("value", "%u", set.value);
  V("width", "%zu", set.width);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = a;
  copy.dstDevice = a + 2048;
  copy.WidthInBytes = 64;
  copy.Height = copy.Depth = 1;
  T("", cuGraphAddMemcpyNode, &copy_node, graph, &set_node, 1, &copy, nullptr);
  T("not a copy", cuGraphMemcpyNodeGetParams, set_node, &copy);
  copy = {};
  T("", cuGraphMemcpyNodeGetParams, copy_node, &copy);
  V("bytes", "%zu", copy.WidthInBytes);
  CUDA_HOST_NODE_PARAMS_v1 host{};
  T("no function", cuGraphAddHostNode, &any, graph, nullptr, 0, &host);
  CUstreamBatchMemOpParams op{};
  op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = a + 128;
  op.writeValue.value = 3;
  CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 ops{nullptr, 1, &op, 0};
  T("", cuGraphAddBatchMemOpNode, &ops_node, graph, &copy_node, 1, &ops);
  ops.flags = 1;
  T("bad flags", cuGraphAddBatchMemOpNode, &any, graph, nullptr, 0, &ops);
  ops = {};
  T("", cuGraphBatchMemOpNodeGetParams, ops_node, &ops);
  V("operations", "%u", ops.count);
  CUgraphNodeParams generic{};
  generic.type = CU_GRAPH_NODE_TYPE_EMPTY;
  T("", cuGraphAddNode_v2, &any, graph, &ops_node, nullptr, 1, &generic);
  T("null", cuGraphAddNode_v2, &any, graph, nullptr, nullptr, 0, nullptr);
  generic.type = static_cast<CUgraphNodeType>(99);
  T("bad type", cuGraphAddNode_v2, &any, graph, nullptr, nullptr, 0, &generic);
  T("", cuGraphGetRootNodes, graph, nullptr, &count);
  V("roots", "%zu", count);
  T("", cuGraphGetEdges_v2, graph, nullptr, nullptr, nullptr, &count);
  V("edges", "%zu", count);
  T("no count", cuGraphGetEdges_v2, graph, nullptr, nullptr, nullptr, nullptr);
  T("", cuGraphNodeGetDependencies, copy_node, nullptr, &count);
  V("dependencies", "%zu", count);
  T("", cuGraphNodeGetDependentNodes_v2, copy_node, nullptr, nullptr, &count);
  V("dependents", "%zu", count);
  T("", cuGraphInstantiateWithFlags, &executable, graph, 0ull);
  T("", cuGraphLaunch, executable, stream);
  set = {a, 0, 9, 4, 16, 1};
  T("", cuGraphExecMemsetNodeSetParams, executable, set_node, &set, nullptr);
  T("another type", cuGraphExecMemsetNodeSetParams, executable, copy_node, &set, nullptr);
  T("", cuGraphLaunch, executable, stream);
  T("", cuStreamSynchronize, stream);
  unsigned word = 0;
  T("", cuMemcpyDtoH_v2, &word, a + 2048, sizeof(word));
  V("word", "%u", word);
  T("", cuMemcpyDtoH_v2, &word, a + 128, sizeof(word));
  V("word", "%u", word);
  T("", cuGraphExecDestroy, executable);
  T("", cuGraphDestroy, graph);
  T("", cuStreamDestroy_v2, stream);
  T("", cuMemFree_v2, a);
}

void TraceUserObjects() {
  CUuserObject object = nullptr;
  CUgraph graph = nullptr;
  auto destroy = [](void*) {};
  T("", cuGraphCreate, &graph, 0u);
  T("", cuUserObjectCreate, &object, nullptr, destroy, 1u, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  T("no flags", cuUserObjectCreate, &object, nullptr, destroy, 1u, 0u);
  T("no references", cuUserObjectCreate, &object, nullptr, destroy, 0u,
    CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  T("", cuUserObjectRetain, object, 2u);
  T("none", cuUserObjectRetain, object, 0u);
  T("", cuGraphRetainUserObject, graph, object, 1u, CU_GRAPH_USER_OBJECT_MOVE);
  T("bad flags", cuGraphRetainUserObject, graph, object, 1u, 7u);
  T("too many", cuGraphReleaseUserObject, graph, object, 2u);
  T("", cuGraphReleaseUserObject, graph, object, 1u);
  T("too many", cuUserObjectRelease, object, 3u);
  T("", cuUserObjectRelease, object, 2u);
  T("gone", cuUserObjectRelease, object, 1u);
  T("", cuGraphDestroy, graph);
  cuuint64_t bytes = 9;
  T("", cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes);
  V("used", "%llu", static_cast<unsigned long long>(bytes));
  T("null", cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, nullptr);
  T("bad device", cuDeviceGraphMemTrim, 99);
  T("", cuDeviceGraphMemTrim, 0);
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
  TraceWork();
  TraceUserObjects();
  TraceCapture(ptx);
}
