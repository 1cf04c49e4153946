// SPDX-License-Identifier: Apache-2.0
// Graphs of graph_checks: clones, updates, memory, conditionals, user objects.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "graph_checks.h"

void ClonesAndChildren() {
  Run run;
  std::vector<int> in(kCount, 4), out(kCount, -1);
  cudaGraph_t inner;
  CHECK(cudaGraphCreate(&inner, 0));
  cudaGraphNode_t up, add, down;
  CHECK(cudaGraphAddMemcpyNode1D(&up, inner, nullptr, 0, run.device, in.data(), kBytes,
                                 cudaMemcpyHostToDevice));
  KernelArguments seven((void*)Add, run.device, 7);
  CHECK(cudaGraphAddKernelNode(&add, inner, &up, 1, &seven.params));
  cudaGraph_t clone;
  CHECK(cudaGraphClone(&clone, inner));
  cudaGraphNode_t twin = nullptr;
  CHECK(cudaGraphNodeFindInClone(&twin, add, clone));
  EXPECT(twin != nullptr && twin != add);
  cudaKernelNodeParams params{};
  CHECK(cudaGraphKernelNodeGetParams(twin, &params));
  EXPECT(params.func == (void*)Add && *(int*)params.kernelParams[1] == 7);
  size_t count = 0;
  CHECK(cudaGraphGetNodes(clone, nullptr, &count));
  EXPECT(count == 2);
  cudaGraphNode_t up_twin = nullptr;
  CHECK(cudaGraphNodeFindInClone(&up_twin, up, clone));
  cudaMemcpy3DParms copy{};
  CHECK(cudaGraphMemcpyNodeGetParams(up_twin, &copy));
  EXPECT(copy.srcPtr.ptr == in.data());
  KernelArguments nine((void*)Add, run.device, 9);
  CHECK(cudaGraphKernelNodeSetParams(twin, &nine.params));
  cudaGraph_t outer;
  CHECK(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t child;
  CHECK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, clone));
  CHECK(cudaGraphAddMemcpyNode1D(&down, outer, &child, 1, out.data(), run.device, kBytes,
                                 cudaMemcpyDeviceToHost));
  cudaGraph_t embedded = nullptr, again = nullptr;
  CHECK(cudaGraphChildGraphNodeGetGraph(child, &embedded));
  CHECK(cudaGraphChildGraphNodeGetGraph(child, &again));
  EXPECT(embedded == again && embedded != clone);
  CHECK(cudaGraphGetNodes(embedded, nullptr, &count));
  EXPECT(count == 2);
  GIVES(cudaErrorInvalidValue, cudaGraphDestroy(embedded));
  cudaGraphExec_t exec = Frozen(outer), plain = Frozen(inner);
  CHECK(cudaGraphDestroy(clone));
  run.Launch(exec);
  EXPECT(out[0] == 13);
  std::fill(in.begin(), in.end(), 40);
  run.Launch(exec);
  EXPECT(out[0] == 49);
  run.Launch(plain);
  EXPECT(run.Read() == 47);
  CHECK(cudaGraphDestroy(outer));
  GIVES(cudaErrorInvalidValue, cudaGraphGetNodes(embedded, nullptr, &count));
}

void Updates() {
  Run run;
  auto make = [&](int value, int kernels, bool memset_last) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < kernels; ++i) Add<<<8, 128, 0, run.stream>>>(run.device, value, kCount);
    if (memset_last) CHECK(cudaMemsetAsync(run.device, 0, 4, run.stream));
    CHECK(cudaStreamEndCapture(run.stream, &graph));
    return graph;
  };
  cudaGraph_t one = make(1, 2, false), two = make(2, 2, false), three = make(1, 3, false),
              other = make(1, 1, true);
  cudaGraphExec_t exec = Frozen(one);
  cudaGraphExecUpdateResultInfo info{};
  CHECK(cudaGraphExecUpdate(exec, two, &info));
  EXPECT(info.result == cudaGraphExecUpdateSuccess);
  run.Launch(exec);
  EXPECT(run.Read() == 4);
  GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, three, &info));
  EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, other, &info));
  EXPECT(info.result == cudaGraphExecUpdateErrorNodeTypeChanged && info.errorNode != nullptr);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(info.errorNode, &type));
  EXPECT(type == cudaGraphNodeTypeMemset);
  run.Launch(exec);
  EXPECT(run.Read() == 8);
}

void MemoryNodes() {
  Run run;
  std::vector<int> out(kCount, -1);
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams memory{};
  memory.poolProps.allocType = cudaMemAllocationTypePinned;
  memory.poolProps.location.type = cudaMemLocationTypeDevice;
  memory.bytesize = kBytes;
  cudaGraphNode_t alloc, set, add, down, release;
  CHECK(cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &memory));
  EXPECT(memory.dptr != nullptr);
  int* inside = (int*)memory.dptr;
  cudaMemsetParams fill{};
  fill.dst = inside;
  fill.pitch = 0;
  fill.value = 3;
  fill.elementSize = 4;
  fill.width = kCount;
  fill.height = 1;
  CHECK(cudaGraphAddMemsetNode(&set, graph, &alloc, 1, &fill));
  KernelArguments four((void*)Add, inside, 4);
  CHECK(cudaGraphAddKernelNode(&add, graph, &set, 1, &four.params));
  CHECK(cudaGraphAddMemcpyNode1D(&down, graph, &add, 1, out.data(), inside, kBytes,
                                 cudaMemcpyDeviceToHost));
  CHECK(cudaGraphAddMemFreeNode(&release, graph, &down, 1, inside));
  GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&release, graph, &down, 1, inside));
  GIVES(cudaErrorInvalidValue, cudaGraphDestroyNode(set));
  cudaGraph_t clone;
  GIVES(cudaErrorNotSupported, cudaGraphClone(&clone, graph));
  cudaMemAllocNodeParams got{};
  CHECK(cudaGraphMemAllocNodeGetParams(alloc, &got));
  EXPECT(got.dptr == inside && got.bytesize == kBytes);
  cudaGraphExec_t exec = Frozen(graph), second = nullptr;
  GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&second, graph, 0));
  run.Launch(exec);
  run.Launch(exec);
  EXPECT(out[0] == 7);
  unsigned long long used = 1, high = 0;
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &high));
  EXPECT(used == 0 && high >= kBytes);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaDeviceGraphMemTrim(0));
  // Captured; not freed by the graph, so it stays, and a second launch may not have it.
  int* left = nullptr;
  CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&left, kBytes, run.stream));
  CHECK(cudaMemsetAsync(left, 1, kBytes, run.stream));
  CHECK(cudaStreamEndCapture(run.stream, &graph));
  size_t count = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 2);
  exec = Frozen(graph);
  run.Launch(exec);
  GIVES(cudaErrorInvalidValue, cudaGraphLaunch(exec, run.stream));
  int value = 0;
  CHECK(cudaMemcpy(&value, left, 4, cudaMemcpyDeviceToHost));
  EXPECT(value == 0x01010101);
  CHECK(cudaFreeAsync(left, run.stream));
  run.Launch(exec);
  CHECK(cudaFree(left));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  run.Launch(exec);
  run.Launch(exec);
}

void Conditionals() {
  Run run;
  int* words = nullptr;
  CHECK(cudaMalloc(&words, 16));
  auto set = [&](int left, int done, int choice) {
    int now[3] = {left, done, choice};
    CHECK(cudaMemcpy(words, now, sizeof(now), cudaMemcpyHostToDevice));
  };
  auto get = [&](int index) {
    int now[3];
    CHECK(cudaMemcpy(now, words, sizeof(now), cudaMemcpyDeviceToHost));
    return now[index];
  };
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle loop, choice;
  CHECK(cudaGraphConditionalHandleCreate(&loop, graph, 1, cudaGraphCondAssignDefault));
  CHECK(cudaGraphConditionalHandleCreate(&choice, graph, 0, 0));
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = loop;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  cudaGraphNode_t while_node, choose, switch_node, node;
  CHECK(cudaGraphAddNode(&while_node, graph, nullptr, nullptr, 0, &params));
  cudaGraph_t body = params.conditional.phGraph_out[0];
  // The body is captured into.
  CHECK(cudaStreamBeginCaptureToGraph(run.stream, body, nullptr, nullptr, 0,
                                      cudaStreamCaptureModeRelaxed));
  CountDown<<<1, 1, 0, run.stream>>>(loop, words, words + 1);
  cudaGraph_t ended = nullptr;
  CHECK(cudaStreamEndCapture(run.stream, &ended));
  EXPECT(ended == body);
  void* choose_values[] = {&choice, nullptr};
  int* from = words + 2;
  choose_values[1] = &from;
  cudaKernelNodeParams kernel{};
  kernel.func = (void*)Choose;
  kernel.gridDim = kernel.blockDim = dim3(1);
  kernel.kernelParams = choose_values;
  CHECK(cudaGraphAddKernelNode(&choose, graph, &while_node, 1, &kernel));
  params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = choice;
  params.conditional.type = cudaGraphCondTypeSwitch;
  params.conditional.size = 2;
  CHECK(cudaGraphAddNode(&switch_node, graph, &choose, nullptr, 1, &params));
  for (int i = 0; i < 2; ++i) {
    KernelArguments arguments((void*)Add, run.device, i == 0 ? 1 : 100);
    CHECK(cudaGraphAddKernelNode(&node, params.conditional.phGraph_out[i], nullptr, 0,
                                 &arguments.params));
  }
  cudaHostNodeParams function{AddOne, nullptr};
  GIVES(cudaErrorNotSupported, cudaGraphAddHostNode(&node, body, nullptr, 0, &function));
  cudaGraphExec_t exec = Frozen(graph);
  set(5, 0, 1);
  run.Launch(exec);
  EXPECT(get(1) == 5 && run.Read() == 100);
  set(3, 0, 0);
  run.Launch(exec);
  EXPECT(get(1) == 3 && run.Read() == 101);
  set(1, 0, 7);
  run.Launch(exec);
  EXPECT(get(1) == 1 && run.Read() == 101);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

static std::atomic<int> g_destroyed{0};
static void CUDART_CB Destroy(void* pointer) {
  g_destroyed += *static_cast<int*>(pointer);
}
static bool Destroyed(int count) {
  for (int i = 0; i < 2000 && g_destroyed != count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return g_destroyed == count;
}

void UserObjects() {
  Run run;
  static int one = 1;
  cudaUserObject_t object;
  CHECK(cudaUserObjectCreate(&object, &one, Destroy, 1, cudaUserObjectNoDestructorSync));
  CHECK(cudaUserObjectRetain(object, 2));
  CHECK(cudaUserObjectRelease(object, 2));
  cudaGraph_t graph, clone;
  CHECK(cudaGraphCreate(&graph, 0));
  KernelArguments arguments((void*)Add, run.device, 1);
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &arguments.params));
  CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  CHECK(cudaGraphClone(&clone, graph));
  cudaGraphExec_t exec = Frozen(graph);
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(clone));
  EXPECT(g_destroyed == 0);
  for (int i = 0; i < 20; ++i) CHECK(cudaGraphLaunch(exec, run.stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaStreamSynchronize(run.stream));
  EXPECT(Destroyed(1));
  EXPECT(run.Read() == 20);
  GIVES(cudaErrorInvalidValue, cudaUserObjectRelease(object, 1));
  CHECK(cudaUserObjectCreate(&object, &one, Destroy, 2, cudaUserObjectNoDestructorSync));
  GIVES(cudaErrorInvalidValue, cudaUserObjectRelease(object, 3));
  CHECK(cudaUserObjectRelease(object, 2));
  EXPECT(Destroyed(2));
}
