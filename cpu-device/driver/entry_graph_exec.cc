// SPDX-License-Identifier: Apache-2.0
// Executable graphs, and the user objects graphs keep alive.
#include "cpu-device/driver/api.h"
#include "cpu-device/driver/context.h"
#include "cpu-device/driver/device.h"
#include "cpu-device/driver/graph.h"
#include "cpu-device/driver/graph_params.h"
#include "cpu-device/driver/stream.h"

namespace farcall::cpu_device {
namespace {

CUresult Enter(CUgraphExec handle, std::shared_ptr<GraphExec>* exec) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *exec = TheDriver().graph_execs.Find(handle);
  return *exec == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Enter(CUgraphExec handle, CUgraphNode node_handle, std::shared_ptr<GraphExec>* exec,
               std::shared_ptr<GraphNode>* node) {
  if (const CUresult result = Enter(handle, exec)) return result;
  *node = GraphNodes().Find(node_handle);
  return *node == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Graph> graph = TheDriver().graphs.Find(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned long long kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>(graph->Clone(), flags);
  if (const CUresult result = exec->Prepare()) return result;
  *out = exec->handle();
  TheDriver().graph_execs.Add(std::move(exec));
  return CUDA_SUCCESS;
}

template <typename Params>
CUresult SetOp(CUgraphExec handle, CUgraphNode node_handle, const Params* params) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, node_handle, &exec, &node)) return result;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Op op;
  if (const CUresult result = OpFrom(*params, &op)) return result;
  return op.index() == node->op.index() ? exec->SetOp(*node, std::move(op))
                                        : CUDA_ERROR_INVALID_VALUE;
}

CUresult Find(CUuserObject handle, std::shared_ptr<UserObject>* object) {
  if (const CUresult result = CheckInitialized()) return result;
  *object = TheDriver().user_objects.Find(handle);
  return *object == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return Instantiate(exec, graph, flags);
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                            size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes != 0) *log = '\0';
  return Instantiate(exec, graph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_bytes) {
  return cuGraphInstantiate(exec, graph, error_node, log, log_bytes);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Instantiate(exec, graph, params->flags);
  params->hErrNode_out = nullptr;
  params->result_out =
      result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return cuGraphInstantiateWithParams(exec, graph, params);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  std::shared_ptr<GraphExec> exec;
  if (const CUresult result = Enter(handle, &exec)) return result;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags();
  return CUDA_SUCCESS;
}

// Everything is where it runs already.
CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Context> context;
  std::shared_ptr<GraphExec> exec;
  if (const CUresult result = Enter(handle, &exec)) return result;
  if (const CUresult result = CurrentContext(&context)) return result;
  return context->FindStream(stream_handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Context> context;
  std::shared_ptr<GraphExec> exec;
  if (const CUresult result = Enter(handle, &exec)) return result;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Stream> stream = context->FindStream(stream_handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture() != nullptr) return RefuseWhileCapturing(*stream);
  return exec->Launch(*stream);
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  if (const CUresult result = CheckInitialized()) return result;
  return TheDriver().graph_execs.Take(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle,
                              CUgraphExecUpdateResultInfo* info) {
  std::shared_ptr<GraphExec> exec;
  if (const CUresult result = Enter(handle, &exec)) return result;
  const std::shared_ptr<Graph> graph = TheDriver().graphs.Find(graph_handle);
  if (graph == nullptr || info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info = {};
  const bool updated = exec->Update(*graph);
  info->result =
      updated ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  return updated ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* outcome) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
  if (error_node != nullptr) *error_node = nullptr;
  if (outcome != nullptr) *outcome = info.result;
  return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return SetOp(exec, node, params);
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* params, CUcontext) {
  return SetOp(exec, node, params);
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return SetOp(exec, node, params);
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return SetOp(exec, node, params);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node_handle, unsigned int enabled) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, node_handle, &exec, &node)) return result;
  return exec->SetEnabled(*node, enabled != 0);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node_handle, unsigned int* enabled) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, node_handle, &exec, &node)) return result;
  bool on = false;
  const CUresult result =
      enabled == nullptr ? CUDA_ERROR_INVALID_VALUE : exec->GetEnabled(*node, &on);
  if (result == CUDA_SUCCESS) *enabled = on;
  return result;
}

CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy,
                            unsigned int references, unsigned int flags) {
  if (const CUresult result = CheckInitialized()) return result;
  if (out == nullptr || destroy == nullptr || references == 0 ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<UserObject>(destroy, pointer, references);
  *out = object->handle();
  TheDriver().user_objects.Add(std::move(object));
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  std::shared_ptr<UserObject> object;
  if (const CUresult result = Find(handle, &object)) return result;
  if (count == 0) return CUDA_ERROR_INVALID_VALUE;
  object->Retain(count);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  std::shared_ptr<UserObject> object;
  if (const CUresult result = Find(handle, &object)) return result;
  return count != 0 && object->Release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  std::shared_ptr<UserObject> object;
  if (const CUresult result = Find(handle, &object)) return result;
  const std::shared_ptr<Graph> graph = TheDriver().graphs.Find(graph_handle);
  if (graph == nullptr || count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  // A move hands the caller's references over; else the graph gets its own.
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) object->Retain(count);
  graph->user_objects[object] += count;
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count) {
  std::shared_ptr<UserObject> object;
  if (const CUresult result = Find(handle, &object)) return result;
  const std::shared_ptr<Graph> graph = TheDriver().graphs.Find(graph_handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto held = graph->user_objects.find(object);
  if (held == graph->user_objects.end() || held->second < count) return CUDA_ERROR_INVALID_VALUE;
  if ((held->second -= count) == 0) graph->user_objects.erase(held);
  return object->Release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
