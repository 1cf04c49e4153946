// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

__device__ int g_in_graph[4];
__global__ void Fill(int* out, int value) {
  out[threadIdx.x] = value + threadIdx.x;
}
int g_calls = 0;
void CUDART_CB Call(void* by) {
  g_calls += static_cast<int>(reinterpret_cast<size_t>(by));
}
void NotAKernel() {}

void Kernels(cudaGraph_t graph, int* device) {
  cudaGraphNode_t node = nullptr, second = nullptr;
  int value = 5;
  void* args[] = {&device, &value};
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(Fill);
  params.gridDim = dim3(1);
  params.blockDim = dim3(4);
  params.kernelParams = args;
  T(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  T(cudaGraphAddKernelNode(&second, graph, nullptr, 0, nullptr));
  cudaKernelNodeParams found = {};
  T(cudaGraphKernelNodeGetParams(node, &found));
  V(found.func == reinterpret_cast<void*>(Fill));
  V(found.blockDim.x);
  V(found.sharedMemBytes);
  V(*static_cast<int*>(found.kernelParams[1]));
  T(cudaGraphKernelNodeGetParams(node, nullptr));
  value = 9;
  params.blockDim = dim3(3);
  T(cudaGraphKernelNodeSetParams(node, &params));
  T(cudaGraphKernelNodeGetParams(node, &found));
  V(found.blockDim.x);
  params.blockDim = dim3(0);
  T(cudaGraphKernelNodeSetParams(node, &params));
  T(cudaGraphAddKernelNode(&second, graph, nullptr, 0, &params));
  params.blockDim = dim3(4);
  params.func = reinterpret_cast<void*>(NotAKernel);
  T(cudaGraphAddKernelNode(&second, graph, nullptr, 0, &params));
  cudaKernelNodeAttrValue attribute = {};
  T(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeCooperative, &attribute));
  V(attribute.cooperative);
  T(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &attribute));
  T(cudaGraphKernelNodeCopyAttributes(node, node));
  cudaGraphExec_t exec = nullptr;
  T(cudaGraphInstantiate(&exec, graph, 0));
  T(cudaGraphLaunch(exec, 0));
  int host[4] = {};
  T(cudaMemcpy(host, device, 16, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4; ++i) V(host[i]);
  params.func = reinterpret_cast<void*>(Fill);
  value = 20;
  T(cudaGraphExecKernelNodeSetParams(exec, node, &params));
  unsigned enabled = 7;
  T(cudaGraphNodeGetEnabled(exec, node, &enabled));
  V(enabled);
  T(cudaGraphLaunch(exec, 0));
  T(cudaMemcpy(host, device, 16, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4; ++i) V(host[i]);
  T(cudaGraphNodeSetEnabled(exec, node, 0));
  T(cudaGraphExecDestroy(exec));
  T(cudaGraphDestroyNode(node));
}

void Copies(cudaGraph_t graph, int* device) {
  cudaGraphNode_t first = nullptr, second = nullptr, third = nullptr, fourth = nullptr;
  int host[4] = {1, 2, 3, 4}, back[4] = {};
  T(cudaGraphAddMemcpyNode1D(&first, graph, nullptr, 0, device, host, 16, cudaMemcpyHostToDevice));
  T(cudaGraphAddMemcpyNodeToSymbol(&second, graph, &first, 1, g_in_graph, device, 16, 0,
                                   cudaMemcpyDeviceToDevice));
  T(cudaGraphAddMemcpyNodeToSymbol(&third, graph, &first, 1, g_in_graph, device, 16, 4,
                                   cudaMemcpyDeviceToDevice));
  T(cudaGraphAddMemcpyNodeFromSymbol(&third, graph, &second, 1, back, g_in_graph, 16, 0,
                                     cudaMemcpyDeviceToHost));
  T(cudaGraphAddMemcpyNode1D(&fourth, graph, nullptr, 0, device, host, 16,
                             static_cast<cudaMemcpyKind>(9)));
  cudaMemcpy3DParms box = {};
  T(cudaGraphMemcpyNodeGetParams(first, &box));
  V(box.kind);
  V(box.extent.width);
  V(box.extent.height);
  V(box.extent.depth);
  V(box.srcPtr.ptr == host);
  V(box.dstPtr.ptr == device);
  T(cudaGraphMemcpyNodeGetParams(first, nullptr));
  cudaMemcpy3DParms rows = {};
  rows.srcPtr = make_cudaPitchedPtr(host, 8, 8, 2);
  rows.dstPtr = make_cudaPitchedPtr(device, 8, 8, 2);
  rows.extent = make_cudaExtent(8, 2, 1);
  rows.kind = cudaMemcpyHostToDevice;
  T(cudaGraphAddMemcpyNode(&fourth, graph, &third, 1, &rows));
  T(cudaGraphAddMemcpyNode(&fourth, graph, &third, 1, nullptr));
  T(cudaGraphMemcpyNodeSetParams(first, &rows));
  T(cudaGraphMemcpyNodeSetParams1D(first, device, host, 16, cudaMemcpyHostToDevice));
  T(cudaGraphMemcpyNodeSetParamsToSymbol(second, g_in_graph, device, 16, 0,
                                         cudaMemcpyDeviceToDevice));
  T(cudaGraphMemcpyNodeSetParamsFromSymbol(third, back, g_in_graph, 16, 0, cudaMemcpyDeviceToHost));
  cudaGraphExec_t exec = nullptr;
  T(cudaGraphInstantiate(&exec, graph, 0));
  T(cudaGraphLaunch(exec, 0));
  T(cudaStreamSynchronize(0));
  V(back[3]);
  int other[4] = {7, 8, 9, 10};
  T(cudaGraphExecMemcpyNodeSetParams1D(exec, first, device, other, 16, cudaMemcpyHostToDevice));
  T(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, second, g_in_graph, device, 16, 0,
                                             cudaMemcpyDeviceToDevice));
  T(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, third, back, g_in_graph, 16, 0,
                                               cudaMemcpyDeviceToHost));
  T(cudaGraphExecMemcpyNodeSetParams(exec, fourth, &rows));
  T(cudaGraphLaunch(exec, 0));
  T(cudaStreamSynchronize(0));
  V(back[3]);
  T(cudaGraphExecDestroy(exec));
}

void Others(cudaGraph_t graph, int* device) {
  cudaGraphNode_t node = nullptr, host = nullptr, record = nullptr, wait = nullptr;
  cudaMemsetParams set = {}, set_found = {};
  set.dst = device;
  set.elementSize = 4;
  set.value = 77;
  set.width = 4;
  set.height = 1;
  T(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set));
  T(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, nullptr));
  T(cudaGraphMemsetNodeGetParams(node, &set_found));
  V(set_found.value);
  V(set_found.width);
  set.value = 78;
  T(cudaGraphMemsetNodeSetParams(node, &set));
  set.elementSize = 3;
  T(cudaGraphMemsetNodeSetParams(node, &set));
  set.elementSize = 4;
  cudaHostNodeParams call = {Call, reinterpret_cast<void*>(3)}, call_found = {};
  T(cudaGraphAddHostNode(&host, graph, &node, 1, &call));
  T(cudaGraphHostNodeGetParams(host, &call_found));
  V(call_found.fn == Call);
  T(cudaGraphHostNodeSetParams(host, &call));
  T(cudaGraphAddHostNode(&host, graph, &node, 1, nullptr));
  cudaEvent_t event = nullptr, event_found = nullptr;
  T(cudaEventCreate(&event));
  T(cudaGraphAddEventRecordNode(&record, graph, &host, 1, event));
  T(cudaGraphEventRecordNodeGetEvent(record, &event_found));
  V(event_found == event);
  T(cudaGraphEventRecordNodeSetEvent(record, event));
  T(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, event));
  T(cudaGraphEventWaitNodeGetEvent(wait, &event_found));
  T(cudaGraphEventWaitNodeSetEvent(wait, event));
  T(cudaGraphEventWaitNodeSetEvent(wait, nullptr));
  cudaGraphExec_t exec = nullptr;
  T(cudaGraphInstantiate(&exec, graph, 0));
  set.value = 79;
  T(cudaGraphExecMemsetNodeSetParams(exec, node, &set));
  T(cudaGraphExecHostNodeSetParams(exec, host, &call));
  T(cudaGraphExecEventRecordNodeSetEvent(exec, record, event));
  T(cudaGraphExecEventWaitNodeSetEvent(exec, wait, event));
  T(cudaGraphLaunch(exec, 0));
  T(cudaStreamSynchronize(0));
  V(g_calls);
  int back[4] = {};
  T(cudaMemcpy(back, device, 16, cudaMemcpyDeviceToHost));
  V(back[2]);
  T(cudaGraphExecDestroy(exec));
  T(cudaEventDestroy(event));
}

void Memory(cudaGraph_t graph) {
  cudaGraphNode_t alloc = nullptr, free = nullptr;
  cudaMemAllocNodeParams params = {}, found = {};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location.type = cudaMemLocationTypeDevice;
  params.bytesize = 1000;
  T(cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params));
  V(params.dptr != nullptr);
  T(cudaGraphMemAllocNodeGetParams(alloc, &found));
  V(found.bytesize);
  T(cudaGraphAddMemFreeNode(&free, graph, &alloc, 1, params.dptr));
  void* freed = nullptr;
  T(cudaGraphMemFreeNodeGetParams(free, &freed));
  V(freed == params.dptr);
  T(cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, nullptr));
  size_t used = 9;
  T(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  V(used);
  T(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &(used = 0)));
  T(cudaDeviceGraphMemTrim(0));
  T(cudaDeviceGraphMemTrim(7));
}

void AnyNode(cudaGraph_t graph, int* device) {
  int value = 50;
  void* args[] = {&device, &value};
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = reinterpret_cast<void*>(Fill);
  params.kernel.gridDim = dim3(1);
  params.kernel.blockDim = dim3(4);
  params.kernel.kernelParams = args;
  cudaGraphNode_t kernel = nullptr, other = nullptr;
  T(cudaGraphAddNode(&kernel, graph, nullptr, nullptr, 0, &params));
  T(cudaGraphAddNode(&other, graph, nullptr, nullptr, 0, nullptr));
  value = 60;
  T(cudaGraphNodeSetParams(kernel, &params));
  cudaGraphNodeParams set = {};
  set.type = cudaGraphNodeTypeMemset;
  set.memset.dst = device;
  set.memset.elementSize = 1;
  set.memset.width = 4;
  set.memset.height = 1;
  T(cudaGraphAddNode(&other, graph, &kernel, nullptr, 1, &set));
  cudaGraphNodeParams copy = {};
  copy.type = cudaGraphNodeTypeMemcpy;
  copy.memcpy.copyParams.srcPtr = make_cudaPitchedPtr(device, 16, 16, 1);
  copy.memcpy.copyParams.dstPtr = make_cudaPitchedPtr(device + 8, 16, 16, 1);
  copy.memcpy.copyParams.extent = make_cudaExtent(16, 1, 1);
  copy.memcpy.copyParams.kind = cudaMemcpyDeviceToDevice;
  T(cudaGraphAddNode(&other, graph, &kernel, nullptr, 1, &copy));
  cudaGraphNodeParams host = {};
  host.type = cudaGraphNodeTypeHost;
  host.host.fn = Call;
  T(cudaGraphAddNode(&other, graph, &kernel, nullptr, 1, &host));
  cudaGraphNodeParams alloc = {};
  alloc.type = cudaGraphNodeTypeMemAlloc;
  alloc.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
  alloc.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
  alloc.alloc.bytesize = 100;
  T(cudaGraphAddNode(&other, graph, &kernel, nullptr, 1, &alloc));
  V(alloc.alloc.dptr != nullptr);
  cudaGraphNodeParams free = {};
  free.type = cudaGraphNodeTypeMemFree;
  free.free.dptr = alloc.alloc.dptr;
  T(cudaGraphAddNode(&other, graph, &other, nullptr, 1, &free));
  cudaGraphNodeParams nothing = {};
  nothing.type = cudaGraphNodeTypeEmpty;
  T(cudaGraphAddNode(&other, graph, nullptr, nullptr, 0, &nothing));
  nothing.type = static_cast<cudaGraphNodeType>(77);
  T(cudaGraphAddNode(&other, graph, nullptr, nullptr, 0, &nothing));
  cudaGraphConditionalHandle handle = 0;
  T(cudaGraphConditionalHandleCreate(&handle, graph, 0, cudaGraphCondAssignDefault));
  cudaGraphNodeParams condition = {};
  condition.type = cudaGraphNodeTypeConditional;
  condition.conditional.handle = handle;
  condition.conditional.type = cudaGraphCondTypeIf;
  condition.conditional.size = 1;
  T(cudaGraphAddNode(&other, graph, nullptr, nullptr, 0, &condition));
  V(condition.conditional.phGraph_out != nullptr);
  cudaGraphExec_t exec = nullptr;
  T(cudaGraphInstantiate(&exec, graph, 0));
  value = 70;
  T(cudaGraphExecNodeSetParams(exec, kernel, &params));
  T(cudaGraphLaunch(exec, 0));
  int back[16] = {};
  T(cudaMemcpy(back, device, 16, cudaMemcpyDeviceToHost));
  V(back[3]);
  T(cudaGraphExecDestroy(exec));
}

}  // namespace

void TraceGraphNodes() {
  int* device = nullptr;
  T(cudaMalloc(&device, 4096));
  void (*parts[])(cudaGraph_t, int*) = {Kernels, Copies, Others, AnyNode};
  for (auto part : parts) {
    cudaGraph_t graph = nullptr;
    T(cudaGraphCreate(&graph, 0));
    part(graph, device);
    T(cudaGraphDestroy(graph));
  }
  cudaGraph_t graph = nullptr;
  T(cudaGraphCreate(&graph, 0));
  Memory(graph);
  T(cudaGraphDestroy(graph));
  T(cudaFree(device));
}
