// SPDX-License-Identifier: Apache-2.0
// What the sections of the probe share: the driver's functions, timing, results.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace probe {

// The driver calls in use, by the names programs ask for (the driver picks the version).
#define PROBE_DRIVER_CALLS(X)       \
  X(cuGetErrorName)                 \
  X(cuDeviceGetAttribute)           \
  X(cuCtxCreate)                    \
  X(cuCtxDestroy)                   \
  X(cuCtxSynchronize)               \
  X(cuMemGetInfo)                   \
  X(cuMemAlloc)                     \
  X(cuMemFree)                      \
  X(cuMemAllocAsync)                \
  X(cuMemFreeAsync)                 \
  X(cuMemHostAlloc)                 \
  X(cuMemFreeHost)                  \
  X(cuMemHostRegister)              \
  X(cuMemHostUnregister)            \
  X(cuMemHostGetDevicePointer)      \
  X(cuMemAddressReserve)            \
  X(cuMemAddressFree)               \
  X(cuMemCreate)                    \
  X(cuMemRelease)                   \
  X(cuMemMap)                       \
  X(cuMemUnmap)                     \
  X(cuMemSetAccess)                 \
  X(cuMemGetAllocationGranularity)  \
  X(cuMemExportToShareableHandle)   \
  X(cuMemImportFromShareableHandle) \
  X(cuMemGetHandleForAddressRange)  \
  X(cuMemcpyHtoD)                   \
  X(cuMemcpyDtoH)                   \
  X(cuMemsetD8)                     \
  X(cuStreamCreate)                 \
  X(cuStreamDestroy)                \
  X(cuStreamQuery)                  \
  X(cuStreamSynchronize)            \
  X(cuStreamWaitEvent)              \
  X(cuStreamWriteValue32)           \
  X(cuLaunchHostFunc)               \
  X(cuEventCreate)                  \
  X(cuEventDestroy)                 \
  X(cuEventRecord)                  \
  X(cuEventQuery)                   \
  X(cuEventSynchronize)             \
  X(cuModuleLoadData)               \
  X(cuModuleGetFunction)            \
  X(cuModuleUnload)                 \
  X(cuLaunchKernel)

struct Driver {
#define PROBE_MEMBER(name) decltype(&::name) name = nullptr;
  PROBE_DRIVER_CALLS(PROBE_MEMBER)
#undef PROBE_MEMBER
};

extern Driver driver;

// TRY gives the status; MUST ends the section with one line when the call fails.
#define TRY(name, ...) ::probe::Call(::probe::driver.name, ##__VA_ARGS__)
#define MUST(name, ...) ::probe::Expect(TRY(name, ##__VA_ARGS__), #name)

template <typename Function, typename... Arguments>
CUresult Call(Function function, Arguments... arguments) {
  return function ? function(arguments...) : CUDA_ERROR_NOT_FOUND;
}

std::string ErrorName(CUresult status);
void Expect(CUresult status, const char* call);
void Expect(cudaError_t status, const char* call);

// One figure of the running section.
void Report(const std::string& name, double value, const std::string& unit,
            const std::string& note = "");
// A finding in words ("yes", an error's name).
void ReportText(const std::string& name, const std::string& text, const std::string& note = "");
// Ends the running section (it is a process of its own).
[[noreturn]] void EndSection(const std::string& error);

// Initialises device 0 in this process: runtime, primary context, driver table.
void OpenDevice();
int DeviceAttribute(CUdevice_attribute attribute);
std::string SizeName(size_t bytes);
// Runs for about `nanoseconds` on `stream`, then adds 1 to *done unless it is null.
void LaunchSpin(CUstream stream, unsigned long long nanoseconds, unsigned* done = nullptr);
void LaunchEmpty(CUstream stream);

inline double NowUs() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
}

template <typename Body>
double TimeUs(Body body) {
  const double start = NowUs();
  body();
  return NowUs() - start;
}

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The median of `repeats` timings of one call; the first call warms up and is not counted.
template <typename Body>
double MedianUs(int repeats, Body body) {
  body();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) times.push_back(TimeUs(body));
  return Median(times);
}

// The mean of `count` calls in a row, the best of five such rows.
template <typename Body>
double PerCallNs(int count, Body body) {
  double best = 1e30;
  for (int row = 0; row < 5; ++row) {
    best = std::min(best, TimeUs([&] {
                            for (int i = 0; i < count; ++i) body();
                          }) * 1e3 /
                              count);
  }
  return best;
}

// The sections; each runs in a process of its own.
void ProbeDevice();
void ProbeAddressHints();
void ProbeVmm();
void ProbeSharing();
void ProbeVmmSmoke();
void ProbeAllocation();
void ProbeSynchronising();
void ProbeUnmapInUse();
void ProbeContext();
void ProbeLaunch();
void ProbeEvents();
void ProbeCompletion();
void ProbeBandwidth();

}  // namespace probe
