// SPDX-License-Identifier: Apache-2.0
// The probe's way to the device: driver table, kernels, what the device says of itself, contexts.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "probe_support.h"

namespace probe {

Driver driver;

namespace {

__global__ void Empty() {}

__global__ void Spin(unsigned long long nanoseconds, unsigned* done) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
  if (done) *done += 1;
}

// The version whose functions cuda.h declares by these names: for 13.0 cuCtxSynchronize has an
// argument that the header's cuCtxSynchronize lacks.
constexpr unsigned kDriverVersion = 12080;

void* EntryPoint(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion(name, &function, kDriverVersion, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    cudaGetLastError();  // a name the driver lacks is no error of a later call
    return nullptr;
  }
  return function;
}

}  // namespace

std::string ErrorName(CUresult status) {
  const char* name = nullptr;
  if (driver.cuGetErrorName) driver.cuGetErrorName(status, &name);
  return name ? name : "error " + std::to_string(status);
}

void Expect(CUresult status, const char* call) {
  if (status != CUDA_SUCCESS) EndSection(std::string(call) + ": " + ErrorName(status));
}

void Expect(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    EndSection(std::string(call) + ": " + cudaGetErrorName(status) + " (" +
               cudaGetErrorString(status) + ")");
  }
}

void OpenDevice() {
  int count = 0;
  Expect(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  Expect(cudaSetDevice(0), "cudaSetDevice");
#define PROBE_LOAD(name) driver.name = reinterpret_cast<decltype(&::name)>(EntryPoint(#name));
  PROBE_DRIVER_CALLS(PROBE_LOAD)
#undef PROBE_LOAD
}

int DeviceAttribute(CUdevice_attribute attribute) {
  int value = 0;
  return TRY(cuDeviceGetAttribute, &value, attribute, 0) == CUDA_SUCCESS ? value : -1;
}

std::string SizeName(size_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; unit < 4 && bytes >= 1024 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return std::to_string(bytes) + " " + units[unit];
}

void LaunchSpin(CUstream stream, unsigned long long nanoseconds, unsigned* done) {
  Spin<<<1, 1, 0, stream>>>(nanoseconds, done);
  Expect(cudaGetLastError(), "launch of the spinning kernel");
}

void LaunchEmpty(CUstream stream) {
  Empty<<<1, 1, 0, stream>>>();
}

void ProbeDevice() {
  OpenDevice();
  cudaDeviceProp properties;
  Expect(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  int driver_version = 0;
  Expect(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion");
  ReportText("name", properties.name);
  Report("driver's CUDA version", driver_version, "-");
  std::ifstream version("/proc/driver/nvidia/version");
  std::string line;
  if (std::getline(version, line)) ReportText("kernel module", line);
  Report("compute capability", properties.major * 10 + properties.minor, "-", "major * 10 + minor");
  Report("multiprocessors", properties.multiProcessorCount, "-");
  Report("memory", properties.totalGlobalMem / 1048576.0, "MiB");
  const struct {
    const char* name;
    CUdevice_attribute attribute;
  } attributes[] = {
      {"virtual memory management", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
      {"POSIX file descriptors", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
      {"GPUDirect RDMA with VMM", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED},
      {"dma-buf", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED},
      {"memory pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
      {"stream memory operations", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
      {"unified addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
      {"pageable memory access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
      {"compute preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
      {"copy engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
      {"under MPS", CU_DEVICE_ATTRIBUTE_MPS_ENABLED},
      {"compute mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
  };
  for (const auto& entry : attributes)
    Report(entry.name, DeviceAttribute(entry.attribute), "-", "attribute; -1: not known");
}

namespace {

size_t FreeBytes() {
  size_t free_bytes = 0, total = 0;
  MUST(cuMemGetInfo, &free_bytes, &total);
  return free_bytes;
}

// Device memory that a second process with a context takes; it must not use CUDA before the fork.
void ProbeSecondProcess() {
  int go[2], ready[2];
  char byte = 0;
  if (pipe(go) != 0 || pipe(ready) != 0) EndSection("cannot open a pipe");
  const pid_t other = fork();
  if (other < 0) EndSection("cannot start a process");
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(go[0], &byte, 1) != 1) _exit(1);
    if (cudaFree(nullptr) != cudaSuccess) _exit(1);
    byte = 1;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  close(ready[1]);
  const double open_us = TimeUs(OpenDevice);
  Report("cuInit and primary context", open_us / 1e3, "ms", "cold: first CUDA call of a process");
  const size_t before = FreeBytes();
  if (write(go[1], &byte, 1) != 1 || read(ready[0], &byte, 1) != 1)
    EndSection("the second process got no context");
  const size_t after = FreeBytes();
  Report("device memory of another process's context",
         (static_cast<double>(before) - static_cast<double>(after)) / 1048576.0, "MiB",
         "what free memory fell by");
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}

}  // namespace

void ProbeContext() {
  ProbeSecondProcess();
  const size_t before = FreeBytes();
  CUcontext context = nullptr;
  const double create_us =
      TimeUs([&] { MUST(cuCtxCreate, &context, nullptr, 0u, static_cast<CUdevice>(0)); });
  const size_t after = FreeBytes();
  Report("cuCtxCreate in the same process", create_us / 1e3, "ms");
  Report("device memory of that context",
         (static_cast<double>(before) - static_cast<double>(after)) / 1048576.0, "MiB");
  Report("cuCtxDestroy", TimeUs([&] { MUST(cuCtxDestroy, context); }) / 1e3, "ms");
  MUST(cuCtxSynchronize);
}

}  // namespace probe
