// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "trace.h"

namespace {

std::atomic<int> g_called{0};
void Count(void* by) {
  g_called += static_cast<int>(reinterpret_cast<size_t>(by));
}
void CUDART_CB Callback(cudaStream_t, cudaError_t status, void* by) {
  if (status == cudaSuccess) Count(by);
}

void Events(cudaStream_t stream) {
  cudaEvent_t first = nullptr, second = nullptr, untimed = nullptr;
  float ms = -1;
  T(cudaEventCreate(&first));
  T(cudaEventCreate(&second));
  T(cudaEventCreate(nullptr));
  T(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  T(cudaEventCreateWithFlags(&untimed, 0xFF));
  T(cudaEventElapsedTime(&ms, first, second));
  T(cudaEventQuery(first));
  T(cudaEventRecord(first, stream));
  T(cudaEventRecord(second, stream));
  T(cudaEventSynchronize(second));
  T(cudaEventQuery(second));
  T(cudaEventElapsedTime(&ms, first, second));
  V(ms >= 0);
  T(cudaEventElapsedTime(nullptr, first, second));
  T(cudaEventRecord(untimed, stream));
  T(cudaEventSynchronize(untimed));
  T(cudaEventElapsedTime(&ms, untimed, second));
  T(cudaEventRecordWithFlags(first, stream, cudaEventRecordDefault));
  T(cudaEventRecordWithFlags(first, stream, 77));
  T(cudaEventRecord(nullptr, stream));
  T(cudaEventQuery(nullptr));
  T(cudaEventSynchronize(nullptr));
  T(cudaStreamWaitEvent(stream, first, 0));
  T(cudaStreamWaitEvent(stream, first, 9));
  T(cudaStreamWaitEvent(stream, nullptr, 0));
  T(cudaEventDestroy(first));
  T(cudaEventDestroy(second));
  T(cudaEventDestroy(nullptr));
  cudaIpcEventHandle_t handle = {};
  T(cudaIpcGetEventHandle(&handle, untimed));
  T(cudaIpcGetEventHandle(nullptr, untimed));
  T(cudaEventDestroy(untimed));
}

void Attributes(cudaStream_t stream, cudaStream_t other) {
  cudaStreamAttrValue value = {};
  T(cudaStreamGetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &value));
  V(value.syncPolicy);
  value.syncPolicy = cudaSyncPolicyYield;
  T(cudaStreamSetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &value));
  T(cudaStreamCopyAttributes(other, stream));
  T(cudaStreamGetAttribute(other, cudaStreamAttributeSynchronizationPolicy, &value));
  V(value.syncPolicy);
  T(cudaStreamGetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, nullptr));
  T(cudaStreamSetAttribute(stream, static_cast<cudaStreamAttrID>(99), &value));
}

void Capture(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  unsigned long long id = 0;
  void* p = nullptr;
  T(cudaMalloc(&p, 64));
  T(cudaStreamIsCapturing(stream, &status));
  V(status);
  T(cudaStreamEndCapture(stream, &graph));
  T(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  T(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  T(cudaStreamIsCapturing(stream, &status));
  V(status);
  T(cudaMemsetAsync(p, 1, 64, stream));
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  T(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count));
  V(status);
  V(count);
  cudaGraphNode_t node = nodes != nullptr && count == 1 ? nodes[0] : nullptr;
  T(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1,
                                        cudaStreamSetCaptureDependencies));
  T(cudaLaunchHostFunc(stream, Count, reinterpret_cast<void*>(100)));
  T(cudaStreamSynchronize(stream));
  T(cudaStreamEndCapture(stream, &graph));
  T(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  T(cudaMemsetAsync(p, 1, 64, stream));
  T(cudaStreamEndCapture(stream, &graph));
  size_t nodes_now = 0;
  T(cudaGraphGetNodes(graph, nullptr, &nodes_now));
  V(nodes_now);
  T(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0,
                                  cudaStreamCaptureModeRelaxed));
  T(cudaMemsetAsync(p, 2, 64, stream));
  T(cudaStreamEndCapture(stream, &graph));
  T(cudaGraphGetNodes(graph, nullptr, &nodes_now));
  V(nodes_now);
  T(cudaGraphDestroy(graph));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  T(cudaThreadExchangeStreamCaptureMode(&mode));
  V(mode);
  T(cudaThreadExchangeStreamCaptureMode(&mode));
  T(cudaThreadExchangeStreamCaptureMode(nullptr));
  T(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
  T(cudaFree(p));
}

}  // namespace

void TraceStreams() {
  cudaStream_t stream = nullptr, other = nullptr;
  unsigned flags = 9;
  int priority = 9, device = 9;
  unsigned long long id = 0, id2 = 0;
  T(cudaStreamCreate(&stream));
  T(cudaStreamCreate(nullptr));
  T(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  T(cudaStreamGetFlags(other, &flags));
  V(flags);
  T(cudaStreamGetFlags(0, &flags));
  V(flags);
  T(cudaStreamGetFlags(stream, nullptr));
  T(cudaStreamCreateWithFlags(&other, 55));
  cudaStream_t high = nullptr;
  T(cudaStreamCreateWithPriority(&high, cudaStreamDefault, -1));
  T(cudaStreamGetPriority(high, &priority));
  V(priority);
  T(cudaStreamGetPriority(stream, nullptr));
  T(cudaStreamGetId(stream, &id));
  T(cudaStreamGetId(other, &id2));
  V(id != id2);
  T(cudaStreamGetDevice(stream, &device));
  V(device);
  T(cudaStreamQuery(stream));
  T(cudaStreamQuery(0));
  T(cudaStreamQuery(cudaStreamPerThread));
  T(cudaStreamQuery(cudaStreamLegacy));
  T(cudaStreamSynchronize(stream));
  T(cudaStreamSynchronize(cudaStreamPerThread));
  T(cudaLaunchHostFunc(stream, Count, reinterpret_cast<void*>(1)));
  T(cudaStreamAddCallback(stream, Callback, reinterpret_cast<void*>(10), 0));
  T(cudaStreamAddCallback(stream, nullptr, nullptr, 0));
  T(cudaStreamAddCallback(stream, Callback, nullptr, 7));
  T(cudaLaunchHostFunc(stream, nullptr, nullptr));
  T(cudaStreamSynchronize(stream));
  V(g_called);
  Events(stream);
  Attributes(stream, other);
  Capture(stream);
  T(cudaStreamDestroy(stream));
  T(cudaStreamDestroy(other));
  T(cudaStreamDestroy(high));
  T(cudaStreamDestroy(nullptr));
}
