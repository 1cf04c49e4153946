// SPDX-License-Identifier: Apache-2.0
// graph_checks CASE: graphs made node by node and by capture, asked, changed and launched through a
// remote client. Prints "ok CASE" or what went wrong.
#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                           \
  do {                                                                        \
    cudaError_t check = (call);                                               \
    if (check != cudaSuccess) Fail(#call, cudaGetErrorName(check), __LINE__); \
  } while (0)
#define GIVES(code, call)                                            \
  do {                                                               \
    cudaError_t got = (call);                                        \
    if (got != (code)) Fail(#call, cudaGetErrorName(got), __LINE__); \
    (void)cudaGetLastError();                                        \
  } while (0)
#define EXPECT(condition)                                  \
  do {                                                     \
    if (!(condition)) Fail(#condition, "false", __LINE__); \
  } while (0)

[[noreturn]] static void Fail(const char* what, const char* got, int line) {
  std::printf("line %d: %s: %s\n", line, what, got);
  std::fflush(stdout);
  std::_Exit(1);
}

__global__ void Add(int* data, int value, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += value;
}
__global__ void Twice(int* data, int value, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = 2 * data[i] + value;
}
__global__ void CountDown(cudaGraphConditionalHandle handle, int* left, int* done) {
  *done += 1;
  *left -= 1;
  cudaGraphSetConditional(handle, *left > 0 ? 1 : 0);
}
__global__ void Choose(cudaGraphConditionalHandle handle, const int* from) {
  cudaGraphSetConditional(handle, *from);
}

constexpr int kCount = 1000;
constexpr size_t kBytes = kCount * sizeof(int);

struct Run {
  cudaStream_t stream = nullptr;
  int* device = nullptr;
  Run() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device, kBytes));
    CHECK(cudaMemset(device, 0, kBytes));
    CHECK(cudaDeviceSynchronize());
  }
  int Read(int index = 0) {
    int value = -1;
    CHECK(cudaMemcpyAsync(&value, device + index, sizeof(value), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return value;
  }
  void Launch(cudaGraphExec_t exec) {
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
};

struct KernelArguments {
  int* data;
  int value;
  int count = kCount;
  void* list[3] = {&data, &value, &count};
  cudaKernelNodeParams params{};
  KernelArguments(void* kernel, int* data, int value) : data(data), value(value) {
    params.func = kernel;
    params.gridDim = dim3((kCount + 127) / 128);
    params.blockDim = dim3(128);
    params.kernelParams = list;
  }
};

static cudaGraphExec_t Frozen(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

// Host memory is read and written by each launch, whatever it holds then.
static void ExplicitNodes() {
  Run run;
  std::vector<int> in(kCount, 5), out(kCount, -1);
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t up, add, set, down;
  CHECK(cudaGraphAddMemcpyNode1D(&up, graph, nullptr, 0, run.device, in.data(), kBytes,
                                 cudaMemcpyHostToDevice));
  KernelArguments arguments((void*)Add, run.device, 7);
  CHECK(cudaGraphAddKernelNode(&add, graph, &up, 1, &arguments.params));
  arguments.value = 1000;  // the node has its own copy
  cudaMemsetParams fill{};
  fill.dst = run.device + 10;
  fill.value = 0;
  fill.elementSize = 4;
  fill.width = 1;
  fill.height = 1;
  CHECK(cudaGraphAddMemsetNode(&set, graph, &add, 1, &fill));
  CHECK(cudaGraphAddMemcpyNode1D(&down, graph, &set, 1, out.data(), run.device, kBytes,
                                 cudaMemcpyDeviceToHost));
  size_t count = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 4);
  cudaGraphNode_t nodes[5];
  count = 5;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  EXPECT(count == 4 && nodes[0] == up && nodes[3] == down && nodes[4] == nullptr);
  CHECK(cudaGraphGetRootNodes(graph, nodes, &count));
  EXPECT(count == 1 && nodes[0] == up);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(set, &type));
  EXPECT(type == cudaGraphNodeTypeMemset);
  cudaKernelNodeParams got{};
  CHECK(cudaGraphKernelNodeGetParams(add, &got));
  EXPECT(got.func == (void*)Add && got.gridDim.x == 8 && *(int*)got.kernelParams[1] == 7 &&
         *(int**)got.kernelParams[0] == run.device);
  cudaMemcpy3DParms copy{};
  CHECK(cudaGraphMemcpyNodeGetParams(up, &copy));
  EXPECT(copy.srcPtr.ptr == in.data() && copy.extent.width == kBytes);
  cudaGraphExec_t exec = Frozen(graph);
  for (int round = 0; round < 3; ++round) {
    std::fill(in.begin(), in.end(), round);
    run.Launch(exec);
    EXPECT(out[0] == round + 7 && out[10] == 0 && out[kCount - 1] == round + 7);
  }
  // Changed in the graph: not in what was made from it.
  KernelArguments other((void*)Twice, run.device, 1);
  CHECK(cudaGraphKernelNodeSetParams(add, &other.params));
  run.Launch(exec);
  EXPECT(out[0] == 9);
  CHECK(cudaGraphExecKernelNodeSetParams(exec, add, &other.params));
  run.Launch(exec);
  EXPECT(out[0] == 5);
  // Another destination and source in the executable graph.
  std::vector<int> in2(kCount, 50), out2(kCount, -1);
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, down, out2.data(), run.device, kBytes,
                                           cudaMemcpyDeviceToHost));
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, up, run.device, in2.data(), kBytes,
                                           cudaMemcpyHostToDevice));
  std::fill(out.begin(), out.end(), -7);
  run.Launch(exec);
  EXPECT(out2[0] == 101 && out[0] == -7);
  // A node that is off copies nothing.
  CHECK(cudaGraphNodeSetEnabled(exec, down, 0));
  unsigned on = 9;
  CHECK(cudaGraphNodeGetEnabled(exec, down, &on));
  EXPECT(on == 0);
  out2[0] = -3;
  run.Launch(exec);
  EXPECT(out2[0] == -3);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  GIVES(cudaErrorInvalidValue, cudaGraphNodeGetType(up, &type));
}

// What was captured with host memory reads and writes it at each replay; so do pinned buffers.
static void CapturedCopies() {
  Run run;
  std::vector<int> pageable(kCount, 1), out(kCount, -1);
  int *pinned = nullptr, *landed = nullptr;
  CHECK(cudaMallocHost(&pinned, kBytes));
  CHECK(cudaMallocHost(&landed, kBytes));
  int* second = nullptr;
  CHECK(cudaMalloc(&second, kBytes));
  for (int i = 0; i < kCount; ++i) pinned[i] = 100;
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemcpyAsync(run.device, pageable.data(), kBytes, cudaMemcpyHostToDevice, run.stream));
  CHECK(cudaMemcpyAsync(second, pinned, kBytes, cudaMemcpyHostToDevice, run.stream));
  Add<<<8, 128, 0, run.stream>>>(run.device, 7, kCount);
  Add<<<8, 128, 0, run.stream>>>(second, 9, kCount);
  CHECK(cudaMemcpyAsync(out.data(), run.device, kBytes, cudaMemcpyDeviceToHost, run.stream));
  CHECK(cudaMemcpyAsync(landed, second, kBytes, cudaMemcpyDefault, run.stream));
  // What comes back goes up again: by the graph's own order.
  CHECK(cudaMemcpyAsync(run.device, landed, kBytes, cudaMemcpyHostToDevice, run.stream));
  CHECK(cudaStreamEndCapture(run.stream, &graph));
  EXPECT(out[0] == -1);
  cudaGraphExec_t exec = Frozen(graph);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kCount; ++i) pageable[i] = round, pinned[i] = 100 * round;
    run.Launch(exec);
    EXPECT(out[3] == round + 7 && landed[kCount - 1] == 100 * round + 9);
    EXPECT(run.Read(5) == 100 * round + 9);
  }
  // Two launches in flight, then one wait.
  CHECK(cudaGraphLaunch(exec, run.stream));
  CHECK(cudaGraphLaunch(exec, run.stream));
  CHECK(cudaStreamSynchronize(run.stream));
  EXPECT(out[0] == 10);
  size_t count = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 7);
  std::vector<cudaGraphNode_t> nodes(count);
  CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  int from_host = 0, kernels = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(node, &type));
    kernels += type == cudaGraphNodeTypeKernel;
    if (type != cudaGraphNodeTypeMemcpy) continue;
    cudaMemcpy3DParms copy{};
    CHECK(cudaGraphMemcpyNodeGetParams(node, &copy));
    from_host += copy.srcPtr.ptr == pageable.data() || copy.srcPtr.ptr == pinned;
  }
  EXPECT(kernels == 2 && from_host == 2);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFreeHost(landed));
}

struct HostWork {
  int* data;
  int calls = 0;
};
static void CUDART_CB AddOne(void* pointer) {
  auto* work = static_cast<HostWork*>(pointer);
  ++work->calls;
  for (int i = 0; i < kCount; ++i) work->data[i] += 1;
}

// A host node finds what was copied before it, and what it writes is copied after it.
static void HostNodes() {
  Run run;
  std::vector<int> host(kCount, 0);
  HostWork work{host.data()};
  for (bool captured : {false, true}) {
    CHECK(cudaMemset(run.device, 0, kBytes));
    work.calls = 0;
    cudaGraph_t graph;
    if (captured) {
      CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeGlobal));
      Add<<<8, 128, 0, run.stream>>>(run.device, 10, kCount);
      CHECK(cudaMemcpyAsync(host.data(), run.device, kBytes, cudaMemcpyDeviceToHost, run.stream));
      CHECK(cudaLaunchHostFunc(run.stream, AddOne, &work));
      CHECK(cudaMemcpyAsync(run.device, host.data(), kBytes, cudaMemcpyHostToDevice, run.stream));
      Add<<<8, 128, 0, run.stream>>>(run.device, 100, kCount);
      CHECK(cudaStreamEndCapture(run.stream, &graph));
    } else {
      CHECK(cudaGraphCreate(&graph, 0));
      cudaGraphNode_t first, down, call, up, last;
      KernelArguments ten((void*)Add, run.device, 10), hundred((void*)Add, run.device, 100);
      CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &ten.params));
      CHECK(cudaGraphAddMemcpyNode1D(&down, graph, &first, 1, host.data(), run.device, kBytes,
                                     cudaMemcpyDeviceToHost));
      cudaHostNodeParams function{AddOne, &work};
      CHECK(cudaGraphAddHostNode(&call, graph, &down, 1, &function));
      CHECK(cudaGraphAddMemcpyNode1D(&up, graph, &call, 1, run.device, host.data(), kBytes,
                                     cudaMemcpyHostToDevice));
      CHECK(cudaGraphAddKernelNode(&last, graph, &up, 1, &hundred.params));
      cudaHostNodeParams got{};
      CHECK(cudaGraphHostNodeGetParams(call, &got));
      EXPECT(got.fn == AddOne && got.userData == &work);
    }
    cudaGraphExec_t exec = Frozen(graph);
    CHECK(cudaGraphDestroy(graph));
    for (int round = 1; round <= 3; ++round) {
      run.Launch(exec);
      EXPECT(work.calls == round);
      EXPECT(host[7] == 111 * (round - 1) + 11);
      EXPECT(run.Read(7) == 111 * round);
    }
    CHECK(cudaGraphExecDestroy(exec));
  }
}

// The nodes of a capture can be named, asked and changed like any other.
static void CapturedNodes() {
  Run run;
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeRelaxed));
  Add<<<8, 128, 0, run.stream>>>(run.device, 3, kCount);
  CHECK(cudaMemsetAsync(run.device + 1, 0, 4, run.stream));
  Twice<<<8, 128, 0, run.stream>>>(run.device, 1, kCount);
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  cudaGraph_t growing = nullptr;
  const cudaGraphNode_t* tips = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t tip_count = 0;
  CHECK(cudaStreamGetCaptureInfo(run.stream, &status, &id, &growing, &tips, &edges, &tip_count));
  EXPECT(status == cudaStreamCaptureStatusActive && id != 0 && tip_count == 1);
  cudaGraphNode_t tip = tips[0];
  // A node of the program's own between what is captured.
  cudaGraphNode_t own;
  KernelArguments five((void*)Add, run.device, 5);
  CHECK(cudaGraphAddKernelNode(&own, growing, &tip, 1, &five.params));
  CHECK(cudaStreamUpdateCaptureDependencies(run.stream, &own, nullptr, 1,
                                            cudaStreamSetCaptureDependencies));
  Add<<<8, 128, 0, run.stream>>>(run.device, 1000, kCount);
  CHECK(cudaStreamEndCapture(run.stream, &graph));
  EXPECT(graph == growing);
  size_t count = 0, edge_count = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edge_count));
  EXPECT(count == 5 && edge_count == 4);
  std::vector<cudaGraphNode_t> nodes(count);
  CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  cudaGraphNode_t dependency = nullptr;
  count = 1;
  CHECK(cudaGraphNodeGetDependencies(own, &dependency, nullptr, &count));
  EXPECT(dependency == tip && count == 1);
  cudaKernelNodeParams params{};
  CHECK(cudaGraphKernelNodeGetParams(tip, &params));
  EXPECT(params.func == (void*)Twice && *(int*)params.kernelParams[1] == 1);
  cudaGraphExec_t exec = Frozen(graph);
  run.Launch(exec);
  EXPECT(run.Read(0) == 1012 && run.Read(1) == 1006);
  KernelArguments more((void*)Twice, run.device, 2);
  CHECK(cudaGraphExecKernelNodeSetParams(exec, tip, &more.params));
  CHECK(cudaMemset(run.device, 0, kBytes));
  CHECK(cudaDeviceSynchronize());
  run.Launch(exec);
  EXPECT(run.Read(0) == 1013);
  CHECK(cudaGraphDestroy(graph));
  GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams(tip, &params));
  GIVES(cudaErrorInvalidValue, cudaGraphExecKernelNodeSetParams(exec, tip, &more.params));
  run.Launch(exec);
  CHECK(cudaGraphExecDestroy(exec));
}

static void ClonesAndChildren() {
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

static void Updates() {
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

static void MemoryNodes() {
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

static void Conditionals() {
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

static void UserObjects() {
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

static void Events() {
  Run run;
  cudaStream_t side;
  cudaEvent_t recorded, awaited;
  CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&recorded, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&awaited, cudaEventDisableTiming));
  std::vector<int> out(kCount, -1);
  for (bool captured : {false, true}) {
    CHECK(cudaMemset(run.device, 0, kBytes));
    CHECK(cudaDeviceSynchronize());
    cudaGraph_t graph;
    if (captured) {
      CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeRelaxed));
      CHECK(cudaStreamWaitEvent(run.stream, awaited, cudaEventWaitExternal));
      Add<<<8, 128, 0, run.stream>>>(run.device, 1, kCount);
      CHECK(cudaMemcpyAsync(out.data(), run.device, kBytes, cudaMemcpyDeviceToHost, run.stream));
      CHECK(cudaEventRecordWithFlags(recorded, run.stream, cudaEventRecordExternal));
      CHECK(cudaStreamEndCapture(run.stream, &graph));
    } else {
      cudaGraphNode_t wait, add, down, record;
      CHECK(cudaGraphCreate(&graph, 0));
      CHECK(cudaGraphAddEventWaitNode(&wait, graph, nullptr, 0, awaited));
      KernelArguments arguments((void*)Add, run.device, 1);
      CHECK(cudaGraphAddKernelNode(&add, graph, &wait, 1, &arguments.params));
      CHECK(cudaGraphAddMemcpyNode1D(&down, graph, &add, 1, out.data(), run.device, kBytes,
                                     cudaMemcpyDeviceToHost));
      CHECK(cudaGraphAddEventRecordNode(&record, graph, &down, 1, recorded));
      cudaEvent_t got = nullptr;
      CHECK(cudaGraphEventRecordNodeGetEvent(record, &got));
      EXPECT(got == recorded);
      CHECK(cudaGraphEventWaitNodeGetEvent(wait, &got));
      EXPECT(got == awaited);
    }
    cudaGraphExec_t exec = Frozen(graph);
    Add<<<8, 128, 0, side>>>(run.device, 10, kCount);
    CHECK(cudaEventRecord(awaited, side));
    CHECK(cudaGraphLaunch(exec, run.stream));
    CHECK(cudaEventSynchronize(recorded));
    EXPECT(out[9] == 11);
    CHECK(cudaEventQuery(recorded));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
  }
}

static void Errors() {
  Run run;
  cudaGraph_t graph, other;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphCreate(&other, 0));
  cudaGraphNode_t a, b, c, foreign, nodes[4], more[4];
  CHECK(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
  CHECK(cudaGraphAddEmptyNode(&b, graph, &a, 1));
  CHECK(cudaGraphAddEmptyNode(&c, graph, &b, 1));
  CHECK(cudaGraphAddEmptyNode(&foreign, other, nullptr, 0));
  GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&nodes[0], graph, &foreign, 1));
  cudaGraphNode_t twice[] = {a, a};
  GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&nodes[0], graph, twice, 2));
  GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &c, &a, nullptr, 1));
  GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &a, &a, nullptr, 1));
  GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &a, &b, nullptr, 1));
  GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &a, &foreign, nullptr, 1));
  CHECK(cudaGraphAddDependencies(graph, &a, &c, nullptr, 1));
  size_t count = 4;
  CHECK(cudaGraphGetEdges(graph, nodes, more, nullptr, &count));
  EXPECT(count == 3);
  CHECK(cudaGraphRemoveDependencies(graph, &a, &c, nullptr, 1));
  GIVES(cudaErrorInvalidValue, cudaGraphRemoveDependencies(graph, &a, &c, nullptr, 1));
  count = 0;
  CHECK(cudaGraphNodeGetDependentNodes(a, nullptr, nullptr, &count));
  EXPECT(count == 1);
  // What an edge carries is kept, and not lost on the way.
  cudaGraphNode_t first, second;
  KernelArguments arguments((void*)Add, run.device, 1);
  CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &arguments.params));
  CHECK(cudaGraphAddKernelNode(&second, graph, nullptr, 0, &arguments.params));
  cudaGraphEdgeData edge{};
  edge.type = cudaGraphDependencyTypeProgrammatic;
  edge.from_port = cudaGraphKernelNodePortProgrammatic;
  GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &first, &c, &edge, 1));
  CHECK(cudaGraphAddDependencies(graph, &first, &second, &edge, 1));
  cudaGraphEdgeData got{};
  count = 1;
  CHECK(cudaGraphNodeGetDependencies(second, nodes, &got, &count));
  EXPECT(nodes[0] == first && got.type == edge.type && got.from_port == edge.from_port);
  CHECK(cudaGraphDestroyNode(b));
  GIVES(cudaErrorInvalidValue, cudaGraphDestroyNode(b));
  cudaGraphNodeType type;
  GIVES(cudaErrorInvalidValue, cudaGraphNodeGetType(b, &type));
  cudaKernelNodeParams params{};
  GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams(a, &params));
  arguments.params.blockDim = dim3(5000);
  GIVES(cudaErrorInvalidValue, cudaGraphAddKernelNode(&b, graph, nullptr, 0, &arguments.params));
  cudaGraphExec_t exec = Frozen(graph);
  GIVES(cudaErrorInvalidValue, cudaGraphNodeSetEnabled(exec, a, 0));
  GIVES(cudaErrorInvalidValue, cudaGraphNodeSetEnabled(exec, foreign, 0));
  CHECK(cudaGraphDestroy(graph));
  GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, graph, 0));
  // Attributes of kernel nodes.
  CHECK(cudaGraphCreate(&graph, 0));
  arguments.params.blockDim = dim3(128);
  CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &arguments.params));
  CHECK(cudaGraphAddKernelNode(&second, graph, nullptr, 0, &arguments.params));
  cudaKernelNodeAttrValue value{};
  value.priority = 0;
  value.cooperative = 1;
  CHECK(cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributeCooperative, &value));
  CHECK(cudaGraphKernelNodeCopyAttributes(second, first));
  value.cooperative = 0;
  CHECK(cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributeCooperative, &value));
  EXPECT(value.cooperative == 1);
}

static void Boxes() {
  Run run;
  constexpr int kRows = 20, kColumns = 30, kPitch = 50;
  std::vector<int> in(kRows * kPitch, -1), out(kRows * kPitch, -2);
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemcpy2DAsync(run.device, kColumns * 4, in.data(), kPitch * 4, kColumns * 4, kRows,
                          cudaMemcpyHostToDevice, run.stream));
  Add<<<8, 128, 0, run.stream>>>(run.device, 1, kRows * kColumns);
  CHECK(cudaMemcpy2DAsync(out.data(), kPitch * 4, run.device, kColumns * 4, kColumns * 4, kRows,
                          cudaMemcpyDeviceToHost, run.stream));
  CHECK(cudaStreamEndCapture(run.stream, &graph));
  cudaGraphExec_t exec = Frozen(graph);
  for (int round = 0; round < 2; ++round) {
    for (int y = 0; y < kRows; ++y)
      for (int x = 0; x < kColumns; ++x) in[y * kPitch + x] = 100 * round + y * kColumns + x;
    run.Launch(exec);
    for (int y = 0; y < kRows; ++y) {
      for (int x = 0; x < kColumns; ++x)
        EXPECT(out[y * kPitch + x] == 100 * round + y * kColumns + x + 1);
      EXPECT(out[y * kPitch + kColumns] == -2);  // between the rows
    }
  }
}

static void Dot() {
  Run run;
  char path[] = "/tmp/farcall-dot-XXXXXX";
  int file = mkstemp(path);
  EXPECT(file >= 0);
  close(file);
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeRelaxed));
  Add<<<8, 128, 0, run.stream>>>(run.device, 1, kCount);
  CHECK(cudaMemsetAsync(run.device, 0, 4, run.stream));
  CHECK(cudaStreamEndCapture(run.stream, &graph));
  CHECK(cudaGraphDebugDotPrint(graph, path, cudaGraphDebugDotFlagsVerbose));
  FILE* text = fopen(path, "r");
  std::string all(100000, '\0');
  all.resize(fread(&all[0], 1, all.size(), text));
  fclose(text);
  unlink(path);
  EXPECT(all.find("digraph") != std::string::npos && all.find("KERNEL") != std::string::npos);
  EXPECT(all.find("Add") != std::string::npos && all.find("->") != std::string::npos);
  GIVES(cudaErrorOperatingSystem, cudaGraphDebugDotPrint(graph, "/nowhere/at/all", 0));
}

// Values written and waited for, by the driver's own calls.
static void MemoryOperations() {
  Run run;
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuGraphAddBatchMemOpNode", &entry, 12000,
                                         cudaEnableDefault, &found));
  auto add = (decltype(&cuGraphAddBatchMemOpNode))entry;
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  CUstreamBatchMemOpParams ops[2] = {};
  ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[0].writeValue.address = (CUdeviceptr)run.device;
  ops[0].writeValue.value = 77;
  ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[1].waitValue.address = (CUdeviceptr)run.device;
  ops[1].waitValue.value = 77;
  ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CUDA_BATCH_MEM_OP_NODE_PARAMS params = {};
  params.count = 2;
  params.paramArray = ops;
  CUgraphNode node = nullptr;
  EXPECT(add(&node, graph, nullptr, 0, &params) == CUDA_SUCCESS);
  ops[0].writeValue.address = 64;
  EXPECT(add(&node, graph, nullptr, 0, &params) == CUDA_ERROR_INVALID_VALUE);
  run.Launch(Frozen(graph));
  EXPECT(run.Read() == 77);
}

// Launched into a capture, a graph is a child of what is captured.
static void LaunchedInCapture() {
  Run run;
  std::vector<int> in(kCount, 2);
  cudaGraph_t inner, outer;
  CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemcpyAsync(run.device, in.data(), kBytes, cudaMemcpyHostToDevice, run.stream));
  CHECK(cudaStreamEndCapture(run.stream, &inner));
  cudaGraphExec_t exec = Frozen(inner);
  CHECK(cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaGraphLaunch(exec, run.stream));
  Add<<<8, 128, 0, run.stream>>>(run.device, 5, kCount);
  CHECK(cudaStreamEndCapture(run.stream, &outer));
  cudaGraphExec_t both = Frozen(outer);
  std::fill(in.begin(), in.end(), 30);
  run.Launch(both);
  EXPECT(run.Read() == 35);
}

int main(int argc, char** argv) {
  struct Case {
    const char* name;
    void (*run)();
  };
  static const Case kCases[] = {{"graph-nodes", ExplicitNodes},
                                {"graph-copies", CapturedCopies},
                                {"graph-host-nodes", HostNodes},
                                {"graph-captured-nodes", CapturedNodes},
                                {"graph-clones", ClonesAndChildren},
                                {"graph-updates", Updates},
                                {"graph-memory", MemoryNodes},
                                {"graph-conditionals", Conditionals},
                                {"graph-user-objects", UserObjects},
                                {"graph-events", Events},
                                {"graph-errors", Errors},
                                {"graph-boxes", Boxes},
                                {"graph-dot", Dot},
                                {"graph-memory-operations", MemoryOperations},
                                {"graph-in-capture", LaunchedInCapture}};
  for (const Case& one : kCases) {
    if (argc == 2 && std::strcmp(argv[1], one.name) == 0) {
      one.run();
      std::printf("ok %s\n", one.name);
      return 0;
    }
  }
  std::fprintf(stderr, "usage: graph_checks CASE\n");
  return 2;
}
