// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

int g_destroyed = 0;
void CUDART_CB Destroy(void* by) {
  g_destroyed += static_cast<int>(reinterpret_cast<size_t>(by));
}

void Edges(cudaGraph_t graph, cudaGraphNode_t a, cudaGraphNode_t b) {
  cudaGraphNode_t from[8], to[8], nodes[8];
  cudaGraphEdgeData data[8] = {};
  size_t count = 8;
  T(cudaGraphAddDependencies(graph, &a, &b, nullptr, 1));
  T(cudaGraphAddDependencies(graph, &a, &b, nullptr, 1));
  T(cudaGraphGetEdges(graph, from, to, data, &count));
  V(count);
  V(count == 1 && from[0] == a && to[0] == b);
  count = 8;
  T(cudaGraphNodeGetDependencies(b, nodes, data, &count));
  V(count);
  count = 8;
  T(cudaGraphNodeGetDependentNodes(a, nodes, data, &count));
  V(count);
  count = 8;
  T(cudaGraphGetRootNodes(graph, nodes, &count));
  V(count);
  count = 8;
  T(cudaGraphGetNodes(graph, nodes, &count));
  V(count);
  T(cudaGraphRemoveDependencies(graph, &a, &b, nullptr, 1));
  T(cudaGraphRemoveDependencies(graph, &a, &b, nullptr, 1));
  T(cudaGraphGetNodes(graph, nodes, nullptr));
  T(cudaGraphAddDependencies(graph, nullptr, nullptr, nullptr, 1));
}

void UserObjects(cudaGraph_t graph) {
  cudaUserObject_t object = nullptr;
  T(cudaUserObjectCreate(&object, reinterpret_cast<void*>(5), Destroy, 2,
                         cudaUserObjectNoDestructorSync));
  T(cudaUserObjectCreate(&object, nullptr, Destroy, 0, cudaUserObjectNoDestructorSync));
  T(cudaUserObjectCreate(nullptr, nullptr, Destroy, 1, cudaUserObjectNoDestructorSync));
  T(cudaUserObjectCreate(&object, reinterpret_cast<void*>(5), Destroy, 2,
                         cudaUserObjectNoDestructorSync));
  T(cudaUserObjectRetain(object, 1));
  T(cudaGraphRetainUserObject(graph, object, 1, 0));
  T(cudaGraphReleaseUserObject(graph, object, 1));
  T(cudaUserObjectRelease(object, 2));
  T(cudaUserObjectRelease(nullptr, 2));
}

}  // namespace

void TraceGraphs() {
  cudaGraph_t graph = nullptr, clone = nullptr, child = nullptr;
  cudaGraphNode_t a = nullptr, b = nullptr, c = nullptr, found = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNodeType type;
  T(cudaGraphCreate(&graph, 0));
  T(cudaGraphCreate(&graph, 1));
  T(cudaGraphCreate(nullptr, 0));
  T(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
  T(cudaGraphAddEmptyNode(&b, graph, nullptr, 0));
  T(cudaGraphAddEmptyNode(nullptr, graph, nullptr, 0));
  T(cudaGraphAddEmptyNode(&c, nullptr, nullptr, 0));
  T(cudaGraphAddEmptyNode(&c, graph, nullptr, 2));
  T(cudaGraphNodeGetType(a, &type));
  V(type);
  T(cudaGraphNodeGetType(nullptr, &type));
  T(cudaGraphNodeGetType(a, nullptr));
  Edges(graph, a, b);
  UserObjects(graph);
  T(cudaGraphClone(&clone, graph));
  T(cudaGraphNodeFindInClone(&found, a, clone));
  V(found != nullptr);
  T(cudaGraphNodeFindInClone(&found, a, graph));
  T(cudaGraphCreate(&child, 0));
  T(cudaGraphAddEmptyNode(&c, child, nullptr, 0));
  T(cudaGraphAddChildGraphNode(&c, graph, &a, 1, child));
  cudaGraph_t inner = nullptr;
  T(cudaGraphChildGraphNodeGetGraph(c, &inner));
  V(inner != nullptr);
  T(cudaGraphChildGraphNodeGetGraph(a, &inner));
  T(cudaGraphInstantiate(&exec, graph, 0));
  unsigned long long flags = 9;
  T(cudaGraphExecGetFlags(exec, &flags));
  V(flags);
  T(cudaGraphExecChildGraphNodeSetParams(exec, c, child));
  T(cudaGraphUpload(exec, 0));
  T(cudaGraphLaunch(exec, 0));
  T(cudaStreamSynchronize(0));
  cudaGraphExecUpdateResultInfo info = {};
  T(cudaGraphExecUpdate(exec, graph, &info));
  V(info.result);
  T(cudaGraphExecUpdate(exec, child, &info));
  V(info.result);
  T(cudaGraphExecUpdate(exec, graph, nullptr));
  T(cudaGraphExecDestroy(exec));
  T(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  T(cudaGraphExecGetFlags(exec, &flags));
  V(flags);
  T(cudaGraphExecDestroy(exec));
  T(cudaGraphInstantiate(&exec, graph, 0xFF00));
  T(cudaGraphInstantiate(nullptr, graph, 0));
  T(cudaGraphInstantiate(&exec, nullptr, 0));
  cudaGraphInstantiateParams params = {};
  T(cudaGraphInstantiateWithParams(&exec, graph, &params));
  V(params.result_out);
  T(cudaGraphInstantiateWithParams(&exec, graph, nullptr));
  T(cudaGraphExecDestroy(exec));
  T(cudaGraphLaunch(nullptr, 0));
  T(cudaGraphUpload(nullptr, 0));
  T(cudaGraphDebugDotPrint(graph, "/dev/null", 0));
  T(cudaGraphDebugDotPrint(nullptr, "/dev/null", 0));
  T(cudaGraphDestroyNode(b));
  T(cudaGraphDestroyNode(nullptr));
  T(cudaGraphDestroy(clone));
  T(cudaGraphDestroy(child));
  T(cudaGraphDestroy(graph));
  T(cudaGraphDestroy(nullptr));
  T(cudaGraphExecDestroy(nullptr));
}
