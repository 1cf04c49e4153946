// SPDX-License-Identifier: Apache-2.0
// Executable graphs.
#include "cpu-device/driver/graph/graph_exec.h"

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/stream.h"

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
  if (graph->embedded) return CUDA_ERROR_INVALID_VALUE;
  // Memory is at one place: one executable graph at a time.
  const bool single = graph->has_memory_nodes();
  if (single && graph->has_exec.exchange(true)) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>(graph, flags);
  if (const CUresult result = exec->Prepare()) return result;
  *out = exec->handle();
  TheDriver().graph_execs.Add(std::move(exec));
  return CUDA_SUCCESS;
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
  if (stream->capture() != nullptr) return exec->LaunchInto(*stream);
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
  return exec->Update(*graph, info) ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* outcome) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
  if (error_node != nullptr) *error_node = info.errorNode;
  if (outcome != nullptr) *outcome = info.result;
  return result;
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

}  // extern "C"
