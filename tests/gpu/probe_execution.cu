// SPDX-License-Identifier: Apache-2.0
// The probe's sections about execution: launches, events, completion, copies.

#include <atomic>
#include <cstring>

#include "probe_support.h"

namespace probe {
namespace {

CUstream NewStream() {
  CUstream stream = nullptr;
  MUST(cuStreamCreate, &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  return stream;
}

}  // namespace

void ProbeLaunch() {
  OpenDevice();
  const CUstream stream = NewStream();
  Report("first launch of a kernel", TimeUs([&] {
           LaunchEmpty(stream);
           Expect(cudaGetLastError(), "launch of an empty kernel");
           MUST(cuStreamSynchronize, stream);
         }),
         "us", "with lazy loading");
  std::vector<double> rows;
  for (int row = 0; row < 9; ++row) {  // 256 fit into the queue: the host does not wait for room
    rows.push_back(TimeUs([&] {
                     for (int i = 0; i < 256; ++i) LaunchEmpty(stream);
                   }) *
                   1e3 / 256);
    MUST(cuStreamSynchronize, stream);
  }
  Report("launch, host cost", Median(rows), "ns", "runtime API, 256 in a row");
  Report("launches, sustained", PerCallNs(20000, [&] { LaunchEmpty(stream); }), "ns",
         "20000 in a row: the slower of host and device");
  MUST(cuStreamSynchronize, stream);
  Report("launch and cuStreamSynchronize",
         MedianUs(200,
                  [&] {
                    LaunchEmpty(stream);
                    MUST(cuStreamSynchronize, stream);
                  }),
         "us");
  Report("cuStreamSynchronize, idle", PerCallNs(2000, [&] { MUST(cuStreamSynchronize, stream); }),
         "ns");
  Report("cuCtxSynchronize, idle", PerCallNs(2000, [&] { MUST(cuCtxSynchronize); }), "ns");
}

void ProbeEvents() {
  OpenDevice();
  const CUstream stream = NewStream(), other = NewStream();
  CUevent event = nullptr;
  MUST(cuEventCreate, &event, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  Report("cuEventRecord", PerCallNs(256, [&] { MUST(cuEventRecord, event, stream); }), "ns");
  MUST(cuStreamSynchronize, stream);
  Report("cuEventQuery, complete", PerCallNs(2000, [&] { MUST(cuEventQuery, event); }), "ns");
  Report("cuStreamQuery, idle", PerCallNs(2000, [&] { MUST(cuStreamQuery, stream); }), "ns");
  Report("cuStreamWaitEvent", PerCallNs(256, [&] { MUST(cuStreamWaitEvent, other, event, 0u); }),
         "ns");
  MUST(cuStreamSynchronize, other);
  CUevent made = nullptr;
  Report("cuEventCreate and cuEventDestroy",
         PerCallNs(500,
                   [&] {
                     MUST(cuEventCreate, &made, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
                     MUST(cuEventDestroy, made);
                   }),
         "ns");
  CUstream made_stream = nullptr;
  Report("cuStreamCreate and cuStreamDestroy",
         MedianUs(20,
                  [&] {
                    MUST(cuStreamCreate, &made_stream,
                         static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
                    MUST(cuStreamDestroy, made_stream);
                  }),
         "us");

  LaunchSpin(stream, 50'000'000);
  MUST(cuEventRecord, event, stream);
  Report("cuEventQuery, not complete", PerCallNs(1000, [&] { TRY(cuEventQuery, event); }), "ns");
  Report("cuStreamQuery, busy", PerCallNs(1000, [&] { TRY(cuStreamQuery, stream); }), "ns");
  ReportText("still running after those queries",
             TRY(cuEventQuery, event) == CUDA_ERROR_NOT_READY ? "yes" : "no",
             "no: the two figures above are not what they say");
  MUST(cuStreamSynchronize, stream);
}

namespace {

void CUDA_CB Raise(void* flag) {
  static_cast<std::atomic<unsigned>*>(flag)->store(1, std::memory_order_release);
}

// Each way to learn that an empty kernel has run: from the launch to the host's noticing.
void ProbeNoticing(CUstream stream) {
  CUevent spin = nullptr, blocking = nullptr;
  MUST(cuEventCreate, &spin, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  MUST(cuEventCreate, &blocking,
       static_cast<unsigned>(CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
  Report("kernel, event, polled",
         MedianUs(200,
                  [&] {
                    LaunchEmpty(stream);
                    MUST(cuEventRecord, spin, stream);
                    while (TRY(cuEventQuery, spin) == CUDA_ERROR_NOT_READY) {
                    }
                  }),
         "us");
  Report("kernel, event, cuEventSynchronize",
         MedianUs(200,
                  [&] {
                    LaunchEmpty(stream);
                    MUST(cuEventRecord, spin, stream);
                    MUST(cuEventSynchronize, spin);
                  }),
         "us");
  Report("kernel, blocking event, cuEventSynchronize",
         MedianUs(200,
                  [&] {
                    LaunchEmpty(stream);
                    MUST(cuEventRecord, blocking, stream);
                    MUST(cuEventSynchronize, blocking);
                  }),
         "us");
  std::atomic<unsigned> flag{0};
  Report("kernel, cuLaunchHostFunc",
         MedianUs(100,
                  [&] {
                    flag = 0;
                    LaunchEmpty(stream);
                    MUST(cuLaunchHostFunc, stream, Raise, static_cast<void*>(&flag));
                    while (!flag.load(std::memory_order_acquire)) {
                    }
                  }),
         "us");
  MUST(cuStreamSynchronize, stream);
}

// A word in pinned memory that the stream writes: completion without a driver call on the host.
void ProbeWatermark(CUstream stream) {
  void* host = nullptr;
  CUdeviceptr device = 0;
  MUST(cuMemHostAlloc, &host, size_t{4096},
       static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  MUST(cuMemHostGetDevicePointer, &device, host, 0u);
  volatile unsigned* word = static_cast<volatile unsigned*>(host);
  *word = 0;
  const CUresult status = TRY(cuStreamWriteValue32, stream, device, cuuint32_t{1}, 0u);
  if (status != CUDA_SUCCESS) {
    ReportText("cuStreamWriteValue32 to pinned memory", ErrorName(status));
    return;
  }
  MUST(cuStreamSynchronize, stream);
  ReportText("cuStreamWriteValue32 to pinned memory", *word == 1 ? "works" : "wrote nothing");
  if (*word != 1) return;
  unsigned next = 1;
  Report("kernel, cuStreamWriteValue32, polled",
         MedianUs(200,
                  [&] {
                    ++next;
                    LaunchEmpty(stream);
                    MUST(cuStreamWriteValue32, stream, device, cuuint32_t{next}, 0u);
                    while (*word != next) {
                    }
                  }),
         "us");
  Report("cuStreamWriteValue32, host cost",
         PerCallNs(256, [&] { MUST(cuStreamWriteValue32, stream, device, cuuint32_t{1}, 0u); }),
         "ns");
  MUST(cuStreamSynchronize, stream);
}

}  // namespace

void ProbeCompletion() {
  OpenDevice();
  const CUstream stream = NewStream();
  LaunchEmpty(stream);
  Expect(cudaGetLastError(), "launch of an empty kernel");
  MUST(cuStreamSynchronize, stream);
  ProbeNoticing(stream);
  ProbeWatermark(stream);
}

namespace {

void ReportRate(const std::string& name, size_t size, double us) {
  char note[32];
  std::snprintf(note, sizeof(note), "%.1f us a copy", us);
  Report(name + " (" + SizeName(size) + ")", size / us / 1e3, "GB/s", note);
}

void ProbeCopies(const char* kind, char* host, CUdeviceptr device, size_t size) {
  const int repeats = size > (size_t{8} << 20) ? 7 : 50;
  ReportRate(std::string("H2D ") + kind, size,
             MedianUs(repeats, [&] { MUST(cuMemcpyHtoD, device, host, size); }));
  ReportRate(std::string("D2H ") + kind, size,
             MedianUs(repeats, [&] { MUST(cuMemcpyDtoH, host, device, size); }));
}

}  // namespace

void ProbeBandwidth() {
  OpenDevice();
  const size_t largest = size_t{256} << 20;
  std::vector<char> pageable(largest, 1), copy(largest, 2);
  void* pinned = nullptr;
  CUdeviceptr device = 0;
  MUST(cuMemHostAlloc, &pinned, largest, static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE));
  MUST(cuMemAlloc, &device, largest);
  std::memset(pinned, 3, largest);
  for (size_t size :
       {size_t{8}, size_t{4096}, size_t{65536}, size_t{1} << 20, size_t{64} << 20, largest}) {
    ProbeCopies("pinned", static_cast<char*>(pinned), device, size);
    ProbeCopies("pageable", pageable.data(), device, size);
  }
  ReportRate("memcpy on the host", largest,
             MedianUs(5, [&] { std::memcpy(copy.data(), pageable.data(), largest); }));
}

}  // namespace probe
