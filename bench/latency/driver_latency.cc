// SPDX-License-Identifier: Apache-2.0
// What a program meets of latency, on whatever libcuda.so.1 the loader finds: one JSON object.
//   start           one kernel, from nothing to its end
//   small [ROUNDS]  waits, small copies, allocations, pairs of events
//   step ROUNDS     10 kernels, 1 KiB up, 4 bytes home, a wait; and without the last two
//   parts ROUNDS    kernels and a wait, by their number, with and without a small copy
//   bulk [MiB]      copies, pageable and page-locked
//   launch          submission and throughput
//   hold SECONDS    launches, then idles
#include <cuda.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace {

const char* const kEmptyKernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry empty(.param .u64 a, .param .u32 b)\n{\n  ret;\n}\n";

double NowUs(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void* Library() {
  static void* library = [] {
    void* opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) {
      std::fprintf(stderr, "driver_latency: %s\n", dlerror());
      std::exit(1);
    }
    return opened;
  }();
  return library;
}

template <typename... Args>
void Call(const char* name, CUresult (*)(Args...), std::type_identity_t<Args>... args) {
  auto* function = reinterpret_cast<CUresult (*)(Args...)>(dlsym(Library(), name));
  const CUresult result = function == nullptr ? CUDA_ERROR_NOT_FOUND : function(args...);
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "driver_latency: %s returned %d\n", name, static_cast<int>(result));
    std::exit(1);
  }
}

// The headers' macros rename some functions: the name looked up is the one they stand for.
#define NAME_OF(function) #function
#define CU(function, ...) \
  Call(NAME_OF(function), static_cast<decltype(&function)>(nullptr), __VA_ARGS__)

struct Program {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction empty = nullptr;
  CUdeviceptr memory = 0;

  void Begin() {
    CU(cuInit, 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
    CU(cuMemAlloc, &memory, 1 << 20);
    CU(cuModuleLoadData, &module, kEmptyKernel);
    CU(cuModuleGetFunction, &empty, module, "empty");
  }
  void Launch(CUstream stream = nullptr) {
    unsigned word = 1;
    void* parameters[] = {&memory, &word};
    CU(cuLaunchKernel, empty, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }
  void Synchronize(CUstream stream = nullptr) { CU(cuStreamSynchronize, stream); }
};

template <typename Work>
double MedianUs(int rounds, Work work) {
  std::vector<double> each;
  for (int i = 0; i < rounds; ++i) {
    const double start = NowUs();
    work();
    each.push_back(NowUs() - start);
  }
  return Median(std::move(each));
}

void Start() {
  const double start = NowUs();
  Program program;
  program.Begin();
  program.Launch();
  program.Synchronize();
  const double end = NowUs();
  std::printf("{\"start_ms\": %.3f, \"ended_at_us\": %.0f}\n", (end - start) / 1e3, end);
}

void Small(int rounds) {
  Program at;
  at.Begin();
  at.Launch();
  at.Synchronize();
  char host[1024] = {};
  const double sync = MedianUs(rounds, [&] { at.Synchronize(); });
  const double read = MedianUs(rounds, [&] { CU(cuMemcpyDtoH, host, at.memory, 4); });
  const double up = MedianUs(rounds, [&] { CU(cuMemcpyHtoD, at.memory, host, sizeof(host)); });
  // A stream that does not wait for the default one: a synchronous upload must be over for it, too.
  CUstream other = nullptr;
  CU(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  at.Synchronize();
  const double beside = MedianUs(rounds, [&] { CU(cuMemcpyHtoD, at.memory, host, sizeof(host)); });
  at.Synchronize();
  const double launched = MedianUs(rounds, [&] {
    at.Launch();
    at.Synchronize();
  });
  const double allocation = MedianUs(rounds, [&] {
    CUdeviceptr memory = 0;
    CU(cuMemAlloc, &memory, 4096);
    CU(cuMemFree, memory);
  });
  CUevent from = nullptr, to = nullptr;
  CU(cuEventCreate, &from, 0);
  CU(cuEventCreate, &to, 0);
  const double pair = MedianUs(rounds, [&] {
    float ms = 0;
    CU(cuEventRecord, from, nullptr);
    CU(cuEventRecord, to, nullptr);
    CU(cuEventSynchronize, to);
    CU(cuEventElapsedTime, &ms, from, to);
  });
  std::printf(
      "{\"sync_us\": %.2f, \"read_4_us\": %.2f, \"up_1k_us\": %.2f, \"up_1k_beside_us\": %.2f, "
      "\"launch_sync_us\": %.2f, \"alloc_free_us\": %.2f, \"event_pair_us\": %.2f}\n",
      sync, read, up, beside, launched, allocation, pair);
}

// The work of one is over before the next begins: what is read waits for nothing but its own.
void Step(int rounds) {
  Program at;
  at.Begin();
  CUstream stream = nullptr;
  CU(cuStreamCreate, &stream, 0);
  std::vector<char> host(1024);
  unsigned loss = 0;
  std::vector<double> reading, plain;
  auto submit = [&] {
    for (int k = 0; k < 10; ++k) at.Launch(stream);
    CU(cuMemcpyHtoDAsync, at.memory, host.data(), host.size(), stream);
  };
  for (int i = -2; i < rounds; ++i) {
    double start = NowUs();
    submit();
    CU(cuMemcpyDtoHAsync, &loss, at.memory, sizeof(loss), stream);
    at.Synchronize(stream);
    if (i >= 0) reading.push_back(NowUs() - start);
  }
  for (int i = -2; i < rounds; ++i) {
    double start = NowUs();
    submit();
    if (i >= 0) plain.push_back(NowUs() - start);
    at.Synchronize(stream);
  }
  std::printf("{\"step_ms\": %.4f, \"step_without_read_ms\": %.4f}\n", Median(reading) / 1e3,
              Median(plain) / 1e3);
}

// Where a step's time goes: kernels and a wait, and the same with 4 bytes read, by the number of
// kernels; then with 1 KiB up before the wait.
void Parts(int rounds) {
  Program at;
  at.Begin();
  CUstream stream = nullptr;
  CU(cuStreamCreate, &stream, 0);
  std::vector<char> host(1024);
  unsigned loss = 0;
  const char* separator = "{";
  for (int kernels : {0, 1, 3, 10, 30}) {
    for (const char* what : {"wait", "read", "up"}) {
      const double us = MedianUs(rounds, [&] {
        for (int k = 0; k < kernels; ++k) at.Launch(stream);
        if (*what == 'r') CU(cuMemcpyDtoHAsync, &loss, at.memory, sizeof(loss), stream);
        if (*what == 'u') CU(cuMemcpyHtoDAsync, at.memory, host.data(), host.size(), stream);
        at.Synchronize(stream);
      });
      std::printf("%s\"%s_%d_us\": %.2f", separator, what, kernels, us);
      separator = ", ";
    }
  }
  std::printf("}\n");
}

void Bulk(size_t bytes) {
  Program at;
  at.Begin();
  CUdeviceptr memory = 0;
  CU(cuMemAlloc, &memory, bytes);
  std::vector<char> pageable(bytes, 3);
  void* pinned = nullptr;
  CU(cuMemHostAlloc, &pinned, bytes, 0);
  std::memset(pinned, 4, bytes);
  auto rate = [&](void* host, bool up) {
    const double us = MedianUs(9, [&] {
      if (up)
        CU(cuMemcpyHtoDAsync, memory, host, bytes, nullptr);
      else
        CU(cuMemcpyDtoHAsync, host, memory, bytes, nullptr);
      at.Synchronize();
    });
    return static_cast<double>(bytes) / us / 1e3;
  };
  const double up = rate(pageable.data(), true), down = rate(pageable.data(), false);
  const double pinned_up = rate(pinned, true), pinned_down = rate(pinned, false);
  std::printf(
      "{\"up_GBps\": %.3f, \"down_GBps\": %.3f, \"pinned_up_GBps\": %.3f, \"pinned_down_GBps\": "
      "%.3f}\n",
      up, down, pinned_up, pinned_down);
}

void LaunchRate() {
  constexpr int kBurst = 1000, kBursts = 100, kSustained = 100000;
  Program at;
  at.Begin();
  at.Launch();
  at.Synchronize();
  std::vector<double> cpu;
  for (int burst = 0; burst < kBursts; ++burst) {
    const double start = NowUs(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < kBurst; ++i) at.Launch();
    cpu.push_back((NowUs(CLOCK_THREAD_CPUTIME_ID) - start) * 1e3 / kBurst);
    at.Synchronize();
  }
  const double start = NowUs();
  for (int i = 0; i < kSustained; ++i) at.Launch();
  at.Synchronize();
  std::printf("{\"launch_cpu_ns\": %.1f, \"launch_to_end_ns\": %.1f}\n", Median(cpu),
              (NowUs() - start) * 1e3 / kSustained);
}

// For whoever looks at this process from outside, between the two lines.
void Hold(unsigned seconds) {
  Program at;
  at.Begin();
  for (int i = 0; i < 1000; ++i) at.Launch();
  at.Synchronize();
  std::printf("{\"idle\": true}\n");
  std::fflush(stdout);
  sleep(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (what == "start") {
    Start();
  } else if (what == "small") {
    Small(number > 0 ? number : 2000);
  } else if (what == "step" && number > 0) {
    Step(number);
  } else if (what == "parts" && number > 0) {
    Parts(number);
  } else if (what == "bulk") {
    Bulk(static_cast<size_t>(number > 0 ? number : 64) << 20);
  } else if (what == "launch") {
    LaunchRate();
  } else if (what == "hold" && number > 0) {
    Hold(static_cast<unsigned>(number));
  } else {
    std::fprintf(stderr,
                 "usage: driver_latency start|small|step N|parts N|bulk|launch|hold SECONDS\n");
    return 2;
  }
  return 0;
}
