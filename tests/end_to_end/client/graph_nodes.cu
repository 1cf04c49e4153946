// SPDX-License-Identifier: Apache-2.0
// Graphs of graph_checks: nodes made one by one and by capture, copies, host functions.

#include <vector>

#include "graph_checks.h"

// Host memory is read and written by each launch, whatever it holds then.
void ExplicitNodes() {
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
void CapturedCopies() {
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

// A host node finds what was copied before it, and what it writes is copied after it.
void HostNodes() {
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
void CapturedNodes() {
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
