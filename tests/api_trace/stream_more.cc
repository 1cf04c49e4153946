// SPDX-License-Identifier: Apache-2.0
// Streams' settings, memory operations in stream order, events and streams that are gone.
#include <atomic>

#include "tests/api_trace/trace.h"

namespace {

std::atomic<int> calls{0};
void CUDA_CB Count(void*) {
  ++calls;
}
void CUDA_CB CountStatus(CUstream, CUresult, void*) {
  ++calls;
}

void TraceAttributes() {
  CUstream stream = nullptr, other = nullptr;
  T("", cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  T("", cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  CUstreamAttrValue value{};
  T("policy", cuStreamGetAttribute, stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  value.syncPolicy = CU_SYNC_POLICY_SPIN;
  T("policy", cuStreamSetAttribute, stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  value.syncPolicy = CU_SYNC_POLICY_AUTO;
  T("policy", cuStreamGetAttribute, stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  V("policy", "%d", static_cast<int>(value.syncPolicy));
  T("", cuStreamCopyAttributes, other, stream);
  T("copied", cuStreamGetAttribute, other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  V("policy", "%d", static_cast<int>(value.syncPolicy));
  CUstreamAttrValue priority{};
  T("priority", cuStreamGetAttribute, stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority);
  T("null", cuStreamGetAttribute, stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, nullptr);
  T("null", cuStreamSetAttribute, stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, nullptr);
  T("bad", cuStreamGetAttribute, stream, static_cast<CUstreamAttrID>(99), &value);
  T("own", cuStreamGetAttribute_ptsz, nullptr, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  T("own", cuStreamSetAttribute_ptsz, nullptr, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
  T("own", cuStreamCopyAttributes_ptsz, other, nullptr);
  T("bad", cuStreamCopyAttributes, other, reinterpret_cast<CUstream>(0x77));
  unsigned flags = 9;
  int level = 9;
  unsigned long long id = 0, second = 0;
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;
  CUdevice device = -1;
  T("legacy", cuStreamGetFlags, nullptr, &flags);
  V("flags", "%u", flags);
  T("own", cuStreamGetFlags_ptsz, nullptr, &flags);
  V("flags", "%u", flags);
  T("own", cuStreamGetPriority_ptsz, nullptr, &level);
  V("level", "%d", level);
  T("own", cuStreamGetId_ptsz, nullptr, &id);
  T("own by name", cuStreamGetId, CU_STREAM_PER_THREAD, &second);
  V("same", "%d", id == second);
  T("legacy", cuStreamGetId, nullptr, &second);
  V("same", "%d", id == second);
  T("own", cuStreamGetCtx_ptsz, nullptr, &context);
  T("", cuStreamGetCtx_v2, stream, &context, &green);
  T("own", cuStreamGetCtx_v2_ptsz, nullptr, &context, &green);
  T("own", cuStreamGetDevice_ptsz, nullptr, &device);
  T("null", cuStreamGetFlags, stream, nullptr);
  T("null", cuStreamGetPriority, stream, nullptr);
  T("null", cuStreamGetId, stream, nullptr);
  T("null", cuStreamGetCtx, stream, nullptr);
  T("null", cuStreamGetDevice, stream, nullptr);
  T("bad", cuStreamGetFlags, reinterpret_cast<CUstream>(0x77), &flags);
  T("bad", cuStreamGetCtx, reinterpret_cast<CUstream>(0x77), &context);
  T("own", cuStreamQuery_ptsz, nullptr);
  T("own", cuStreamSynchronize_ptsz, nullptr);
  T("legacy", cuStreamQuery, nullptr);
  T("bad", cuStreamQuery, reinterpret_cast<CUstream>(0x77));
  T("", cuStreamDestroy, other);
  T("destroyed", cuStreamQuery, other);
  T("destroyed", cuStreamSynchronize, other);
  T("destroyed", cuStreamGetFlags, other, &flags);
  T("destroyed", cuStreamDestroy_v2, other);
  T("legacy", cuStreamDestroy_v2, CU_STREAM_LEGACY);
  T("own", cuStreamDestroy_v2, CU_STREAM_PER_THREAD);
  T("low", cuStreamCreateWithPriority, &other, 0u, 5);
  T("", cuStreamGetPriority, other, &level);
  V("level", "%d", level);
  T("", cuStreamDestroy_v2, other);
  T("high", cuStreamCreateWithPriority, &other, CU_STREAM_NON_BLOCKING, -99);
  T("", cuStreamGetPriority, other, &level);
  V("level", "%d", level);
  T("", cuStreamDestroy_v2, other);
  T("null", cuStreamCreateWithPriority, nullptr, 0u, 0);
  T("", cuStreamDestroy_v2, stream);
}

void TraceMemoryOperations() {
  CUdeviceptr a = 0;
  CUstream stream = nullptr;
  unsigned word = 0;
  T("", cuMemAlloc_v2, &a, 256);
  T("", cuMemsetD8_v2, a, 0, 256);
  T("", cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  T("", cuStreamWriteValue32_v2, stream, a, 7u, 0u);
  T("", cuStreamWaitValue32_v2, stream, a, 7u, CU_STREAM_WAIT_VALUE_EQ);
  T("", cuStreamWriteValue64_v2, stream, a + 8, 9ull, 0u);
  T("", cuStreamWaitValue64_v2, stream, a + 8, 9ull, CU_STREAM_WAIT_VALUE_GEQ);
  T("", cuStreamSynchronize, stream);
  T("own", cuStreamWriteValue32_v2_ptsz, nullptr, a + 16, 17u, 0u);
  T("own", cuStreamWaitValue32_v2_ptsz, nullptr, a + 16, 17u, CU_STREAM_WAIT_VALUE_EQ);
  T("own", cuStreamWriteValue64_v2_ptsz, nullptr, a + 24, 19ull, 0u);
  T("own", cuStreamWaitValue64_v2_ptsz, nullptr, a + 24, 19ull, CU_STREAM_WAIT_VALUE_EQ);
  T("own", cuStreamSynchronize_ptsz, nullptr);
  T("", cuMemcpyDtoH_v2, &word, a + 16, 4);
  V("word", "%u", word);
  T("bad stream", cuStreamWriteValue32_v2, reinterpret_cast<CUstream>(0x77), a, 7u, 0u);
  T("", cuStreamDestroy_v2, stream);
  T("", cuMemFree_v2, a);
}

void TraceEvents() {
  CUevent event = nullptr, second = nullptr, bad = reinterpret_cast<CUevent>(0x77);
  CUstream stream = nullptr;
  float ms = -1;
  T("", cuStreamCreate, &stream, 0u);
  T("", cuEventCreate, &event, CU_EVENT_BLOCKING_SYNC);
  T("", cuEventCreate, &second, CU_EVENT_BLOCKING_SYNC);
  T("unrecorded", cuEventSynchronize, event);
  T("unrecorded", cuEventElapsedTime, &ms, event, second);
  T("unrecorded", cuStreamWaitEvent, stream, event, 0u);
  T("own", cuEventRecord_ptsz, event, nullptr);
  T("own", cuEventRecordWithFlags_ptsz, second, nullptr, 0u);
  T("own", cuStreamWaitEvent_ptsz, nullptr, second, 0u);
  T("external", cuEventRecordWithFlags, second, stream, CU_EVENT_RECORD_EXTERNAL);
  T("bad flags", cuEventRecordWithFlags, second, stream, 9u);
  T("", cuEventRecord, second, stream);
  T("", cuEventSynchronize, second);
  T("", cuEventSynchronize, event);
  T("", cuEventElapsedTime, &ms, event, second);
  V("not negative", "%d", ms >= 0);
  T("null", cuEventElapsedTime, nullptr, event, second);
  T("bad", cuEventElapsedTime, &ms, event, bad);
  T("bad", cuEventQuery, bad);
  T("bad", cuEventSynchronize, bad);
  T("bad", cuEventRecord, bad, stream);
  T("bad", cuStreamWaitEvent, stream, bad, 0u);
  T("bad stream", cuEventRecord, event, reinterpret_cast<CUstream>(0x77));
  T("bad", cuEventDestroy_v2, bad);
  T("null", cuEventQuery, nullptr);
  T("", cuEventDestroy, event);
  T("destroyed", cuEventQuery, event);
  T("destroyed", cuEventRecord, event, stream);
  T("destroyed", cuEventDestroy_v2, event);
  T("interprocess with timing", cuEventCreate, &event, CU_EVENT_INTERPROCESS);
  T("", cuEventDestroy_v2, second);
  T("own", cuLaunchHostFunc_ptsz, nullptr, Count, nullptr);
  T("own", cuStreamAddCallback_ptsz, nullptr, CountStatus, nullptr, 0u);
  T("own", cuStreamSynchronize_ptsz, nullptr);
  V("calls", "%d", calls.load());
  T("null", cuStreamAddCallback, stream, nullptr, nullptr, 0u);
  T("bad flags", cuStreamAddCallback, stream, CountStatus, nullptr, 4u);
  T("bad stream", cuLaunchHostFunc, reinterpret_cast<CUstream>(0x77), Count, nullptr);
  T("", cuStreamDestroy_v2, stream);
}

}  // namespace

void TraceStreamMore() {
  TraceAttributes();
  TraceMemoryOperations();
  TraceEvents();
}
