// SPDX-License-Identifier: Apache-2.0
#include "bench/driver_figures.h"

#include <cuda.h>
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "bench/raw_loopback.h"

namespace farcall::bench {
namespace {

using Time = std::chrono::steady_clock;
constexpr int kBurst = 1000;
constexpr int kBursts = 200;
constexpr int kSustained = 200000;
constexpr size_t kSyncs = 4000;

const char* const kEmptyKernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry empty(.param .u64 a, .param .u32 b)\n{\n  ret;\n}\n";

double SecondsSince(Time::time_point start) {
  return std::chrono::duration<double>(Time::now() - start).count();
}

double ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// The dozen functions used, by exported name; each call is checked.
class Driver {
 public:
  Status Open(const std::string& library) {
    handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) return Status(Code::kUnavailable, std::string("bench: ") + dlerror());
    return Status();
  }
  template <typename Function>
  Function* Find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  void Check(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS && failure_.ok()) {
      failure_ = Status(Code::kUnavailable,
                        std::string("bench: ") + what + " returned " + std::to_string(result));
    }
  }
  const Status& failure() const { return failure_; }

 private:
  void* handle_ = nullptr;
  Status failure_;
};

#define BENCH_NAME(name) #name
#define BENCH_CALL(driver, name, ...) \
  (driver).Check((driver).Find<decltype(name)>(BENCH_NAME(name))(__VA_ARGS__), BENCH_NAME(name))

struct Bench {
  Driver driver;
  CUfunction empty = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;

  void Launch() {
    static auto* launch = driver.Find<decltype(cuLaunchKernel)>("cuLaunchKernel");
    unsigned b = 1;
    void* parameters[] = {&memory, &b};
    driver.Check(launch(empty, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), "cuLaunchKernel");
  }
  void Synchronize() { BENCH_CALL(driver, cuStreamSynchronize, stream); }
};

double MeasureStart(Bench& bench) {
  Time::time_point start = Time::now();
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  BENCH_CALL(bench.driver, cuInit, 0);
  if (!bench.driver.failure().ok()) return 0;
  BENCH_CALL(bench.driver, cuDevicePrimaryCtxRetain, &context, 0);
  BENCH_CALL(bench.driver, cuCtxSetCurrent, context);
  BENCH_CALL(bench.driver, cuStreamCreate, &bench.stream, CU_STREAM_NON_BLOCKING);
  BENCH_CALL(bench.driver, cuModuleLoadData, &module, kEmptyKernel);
  BENCH_CALL(bench.driver, cuModuleGetFunction, &bench.empty, module, "empty");
  if (!bench.driver.failure().ok()) return 0;
  bench.Launch();
  bench.Synchronize();
  return SecondsSince(start) * 1e3;
}

void MeasureLaunches(Bench& bench, DriverFigures* figures) {
  std::vector<double> cpu, wall;
  for (int burst = 0; burst < kBursts; ++burst) {
    double cpu_start = ThreadCpuNs();
    Time::time_point start = Time::now();
    for (int i = 0; i < kBurst; ++i) bench.Launch();
    wall.push_back(SecondsSince(start) * 1e9 / kBurst);
    cpu.push_back((ThreadCpuNs() - cpu_start) / kBurst);
    bench.Synchronize();
  }
  figures->launch_ns = Median(cpu);
  figures->launch_wall_ns = Median(wall);
  Time::time_point start = Time::now();
  for (int i = 0; i < kSustained; ++i) bench.Launch();
  bench.Synchronize();
  figures->launches_per_s = kSustained / SecondsSince(start);
}

// Median of `least` waits for an idle stream, and of more while `seconds` have not passed: `max` at
// most. In microseconds.
double MeasureSync(Bench& bench, size_t least, size_t max, double seconds) {
  std::vector<double> each;
  const Time::time_point start = Time::now();
  while (each.size() < least || (each.size() < max && SecondsSince(start) < seconds)) {
    const Time::time_point before = Time::now();
    bench.Synchronize();
    each.push_back(SecondsSince(before) * 1e6);
  }
  return Median(each);
}

CopyFigure MeasureCopy(Bench& bench, uint64_t bytes) {
  std::vector<char> host(bytes, 3);
  std::vector<double> up, down;
  double up_cpu_s = 0, down_cpu_s = 0;
  int rounds = bytes >= (16u << 20) ? 9 : 50;
  for (int round = 0; round < rounds; ++round) {
    double cpu_start_s = ProcessCpuSeconds();
    Time::time_point start = Time::now();
    BENCH_CALL(bench.driver, cuMemcpyHtoD, bench.memory, host.data(), bytes);
    bench.Synchronize();
    up.push_back(bytes / SecondsSince(start) / 1e9);
    double cpu_s = ProcessCpuSeconds();
    up_cpu_s += cpu_s - cpu_start_s;
    start = Time::now();
    BENCH_CALL(bench.driver, cuMemcpyDtoH, host.data(), bench.memory, bytes);
    down.push_back(bytes / SecondsSince(start) / 1e9);
    down_cpu_s += ProcessCpuSeconds() - cpu_s;
  }
  double GiB = static_cast<double>(bytes) * rounds / (1u << 30);
  return {bytes, Median(up), Median(down), up_cpu_s / GiB, down_cpu_s / GiB};
}

// Seconds of one copy.
double CopyOnce(Bench& bench, std::vector<char>& host, uint64_t bytes, bool up) {
  const Time::time_point start = Time::now();
  if (up) {
    BENCH_CALL(bench.driver, cuMemcpyHtoD, bench.memory, host.data(), bytes);
    bench.Synchronize();
  } else {
    BENCH_CALL(bench.driver, cuMemcpyDtoH, host.data(), bench.memory, bytes);
  }
  return SecondsSince(start);
}

}  // namespace

Result<PathFigures> MeasurePath(const std::string& library) {
  constexpr uint64_t kLeastBytes = uint64_t{1} << 20, kMaxBytes = uint64_t{64} << 20;
  constexpr double kLongCopySeconds = 0.3;
  constexpr int kRounds = 5;
  Bench bench;
  PathFigures figures;
  FARCALL_TRY(bench.driver.Open(library));
  MeasureStart(bench);
  FARCALL_TRY(bench.driver.failure());
  BENCH_CALL(bench.driver, cuMemAlloc, &bench.memory, kMaxBytes);
  FARCALL_TRY(bench.driver.failure());
  figures.round_trip_us = MeasureSync(bench, 5, 1000, 2);
  std::vector<char> host(kMaxBytes, 3);
  figures.copied_bytes = kLeastBytes;
  while (figures.copied_bytes < kMaxBytes &&
         CopyOnce(bench, host, figures.copied_bytes, true) < kLongCopySeconds)
    figures.copied_bytes *= 2;
  std::vector<double> up, down;
  for (int round = 0; round < kRounds && bench.driver.failure().ok(); ++round) {
    const auto bytes = static_cast<double>(figures.copied_bytes);
    up.push_back(bytes / CopyOnce(bench, host, figures.copied_bytes, true));
    down.push_back(bytes / CopyOnce(bench, host, figures.copied_bytes, false));
  }
  figures.up_bytes_per_s = Median(up);
  figures.down_bytes_per_s = Median(down);
  BENCH_CALL(bench.driver, cuMemFree, bench.memory);
  FARCALL_TRY(bench.driver.failure());
  return figures;
}

Result<DriverFigures> MeasureDriver(const std::string& library) {
  Bench bench;
  DriverFigures figures;
  FARCALL_TRY(bench.driver.Open(library));
  figures.start_ms = MeasureStart(bench);
  FARCALL_TRY(bench.driver.failure());
  BENCH_CALL(bench.driver, cuMemAlloc, &bench.memory, 64u << 20);
  FARCALL_TRY(bench.driver.failure());
  MeasureLaunches(bench, &figures);
  figures.sync_us = MeasureSync(bench, kSyncs, kSyncs, 0);
  for (uint64_t bytes : {uint64_t{4} << 10, uint64_t{64} << 10, uint64_t{1} << 20,
                         uint64_t{16} << 20, uint64_t{64} << 20})
    figures.copies.push_back(MeasureCopy(bench, bytes));
  BENCH_CALL(bench.driver, cuMemFree, bench.memory);
  FARCALL_TRY(bench.driver.failure());
  return figures;
}

Result<double> MeasureStartOnly(const std::string& library) {
  Bench bench;
  FARCALL_TRY(bench.driver.Open(library));
  double start_ms = MeasureStart(bench);
  FARCALL_TRY(bench.driver.failure());
  return start_ms;
}

}  // namespace farcall::bench
