// SPDX-License-Identifier: Apache-2.0
// Graphs of graph_checks: events, errors, boxes, pictures, memory operations, launches in a
// capture.
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "graph_checks.h"

void Events() {
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

void Errors() {
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

void Boxes() {
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

void Dot() {
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
void MemoryOperations() {
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
void LaunchedInCapture() {
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
