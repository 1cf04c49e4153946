// SPDX-License-Identifier: Apache-2.0
// Streams, events, host functions, capture and small graphs.
#include <atomic>

#include "tests/api_trace/trace.h"

namespace {

std::atomic<int> calls{0};
void CUDA_CB Count(void* data) {
  calls += *static_cast<int*>(data);
}
void CUDA_CB CountStatus(CUstream, CUresult status, void* data) {
  if (status == CUDA_SUCCESS) calls += *static_cast<int*>(data);
}

}  // namespace

void TraceStream() {
  CUstream stream = nullptr, other = nullptr, urgent = nullptr;
  CUevent event = nullptr, timed = nullptr, second = nullptr;
  unsigned flags = 9;
  int priority = 9;
  unsigned long long id = 0;
  CUcontext context = nullptr;
  CUdevice device = -1;
  T("", cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  T("bad flags", cuStreamCreate, &other, 77);
  T("null", cuStreamCreate, nullptr, 0);
  T("", cuStreamCreateWithPriority, &urgent, 0, -1);
  T("", cuStreamGetFlags, stream, &flags);
  V("flags", "%u", flags);
  T("", cuStreamGetPriority, stream, &priority);
  T("", cuStreamGetId, stream, &id);
  T("", cuStreamGetCtx, stream, &context);
  T("", cuStreamGetDevice, stream, &device);
  T("", cuStreamQuery, stream);
  T("", cuStreamSynchronize, stream);
  T("legacy", cuStreamSynchronize, nullptr);
  T("bad", cuStreamSynchronize, reinterpret_cast<CUstream>(0x77));
  T("", cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  T("", cuEventCreate, &timed, CU_EVENT_DEFAULT);
  T("", cuEventCreate, &second, CU_EVENT_DEFAULT);
  T("bad flags", cuEventCreate, &event, 0x100);
  T("null", cuEventCreate, nullptr, 0);
  T("never recorded", cuEventQuery, timed);
  T("", cuEventRecord, timed, stream);
  T("", cuEventRecord, second, stream);
  T("", cuEventSynchronize, second);
  T("", cuEventQuery, timed);
  float ms = -1;
  T("", cuEventElapsedTime_v2, &ms, timed, second);
  V("not negative", "%d", ms >= 0);
  T("no timing", cuEventElapsedTime_v2, &ms, event, second);
  T("with flags", cuEventRecordWithFlags, timed, stream, 0);
  T("", cuStreamWaitEvent, urgent, timed, 0);
  T("bad flags", cuStreamWaitEvent, urgent, timed, 50);
  static int one = 1, ten = 10;
  T("", cuLaunchHostFunc, stream, Count, &one);
  T("null", cuLaunchHostFunc, stream, nullptr, &one);
  T("", cuStreamAddCallback, stream, CountStatus, &ten, 0);
  T("", cuStreamSynchronize, stream);
  V("calls", "%d", calls.load());
  T("", cuEventDestroy_v2, event);
  T("", cuEventDestroy_v2, timed);
  T("", cuEventDestroy_v2, second);
  T("null", cuEventDestroy_v2, nullptr);
  T("", cuStreamDestroy_v2, urgent);
  T("", cuStreamDestroy_v2, stream);
  T("null", cuStreamDestroy_v2, nullptr);
}

void TraceGraph(const char* ptx) {
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  CUdeviceptr out = 0;
  CUstream stream = nullptr;
  T("", cuModuleLoadData, &module, ptx);
  T("", cuModuleGetFunction, &fill, module, "fill");
  T("", cuMemAlloc_v2, &out, 4096);
  T("", cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  T("", cuStreamIsCapturing, stream, &status);
  V("status", "%d", static_cast<int>(status));
  T("not begun", cuStreamEndCapture, stream, &graph);
  T("legacy", cuStreamBeginCapture_v2, nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL);
  T("", cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  T("twice", cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  T("", cuStreamIsCapturing, stream, &status);
  V("status", "%d", static_cast<int>(status));
  unsigned value = 5, count = 1000, back = 0;
  void* parameters[] = {&out, &value, &count};
  T("captured", cuLaunchKernel, fill, 4, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr);
  T("captured", cuMemsetD32Async, out, 6, 10, stream);
  T("", cuStreamEndCapture, stream, &graph);
  size_t nodes = 0;
  T("", cuGraphGetNodes, graph, nullptr, &nodes);
  V("nodes", "%zu", nodes);
  T("", cuGraphInstantiateWithFlags, &executable, graph, 0);
  T("", cuMemcpyDtoH_v2, &back, out + 400, 4);
  T("", cuGraphLaunch, executable, stream);
  T("", cuStreamSynchronize, stream);
  T("", cuMemcpyDtoH_v2, &back, out, 4);
  V("first", "%u", back);
  T("", cuMemcpyDtoH_v2, &back, out + 400, 4);
  V("hundredth", "%u", back);
  T("", cuGraphExecDestroy, executable);
  T("", cuGraphDestroy, graph);
  T("begin", cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  T("sync in capture", cuStreamSynchronize, stream);
  T("invalidated", cuStreamEndCapture, stream, &graph);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  T("", cuThreadExchangeStreamCaptureMode, &mode);
  T("", cuStreamDestroy_v2, stream);
  T("", cuMemFree_v2, out);
  T("", cuModuleUnload, module);
}
