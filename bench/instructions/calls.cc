// SPDX-License-Identifier: Apache-2.0
// Calls of the driver API to be counted: `calls WHAT` makes kCalls of them in the function
// Counted, whose costs callgrind writes down.
//
//   launch  cuLaunchKernel of an empty kernel, which the flusher sends
//   sync    cuStreamSynchronize of an idle stream
//   read    cuMemcpyDtoH of 4 bytes
//   memory  cuMemAlloc and cuMemFree of 1 MiB
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kCalls = 1000;     // fewer launches than make the caller send in the flusher's place
constexpr int kWarmUp = kCalls;  // after which the pool holds the frames that they need

const char* const kEmptyKernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry empty(.param .u64 a, .param .u32 b)\n{\n  ret;\n}\n";

void* g_driver = nullptr;

template <typename Function>
Function* Find(const char* name) {
  void* found = dlsym(g_driver, name);
  if (found == nullptr) {
    std::fprintf(stderr, "calls: no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

void Check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "calls: %s returned %d\n", what, static_cast<int>(result));
    std::exit(1);
  }
}

struct Calls {
  decltype(cuLaunchKernel)* launch;
  decltype(cuStreamSynchronize)* synchronize;
  decltype(cuMemAlloc_v2)* allocate;
  decltype(cuMemFree_v2)* free;
  decltype(cuMemcpyDtoH_v2)* read;
  CUdeviceptr memory = 0;
  CUfunction empty = nullptr;
  CUstream stream = nullptr;
};

void Launch(const Calls& calls) {
  CUdeviceptr a = 0;
  unsigned b = 1;
  void* parameters[] = {&a, &b};
  Check(calls.launch(calls.empty, 1, 1, 1, 1, 1, 1, 0, calls.stream, parameters, nullptr),
        "cuLaunchKernel");
}

void Synchronize(const Calls& calls) {
  Check(calls.synchronize(calls.stream), "cuStreamSynchronize");
}

void Read(const Calls& calls) {
  unsigned word = 0;
  Check(calls.read(&word, calls.memory, sizeof(word)), "cuMemcpyDtoH");
}

void Memory(const Calls& calls) {
  CUdeviceptr memory = 0;
  Check(calls.allocate(&memory, 1 << 20), "cuMemAlloc");
  Check(calls.free(memory), "cuMemFree");
}

Calls Prepare() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  Calls calls{Find<decltype(cuLaunchKernel)>("cuLaunchKernel"),
              Find<decltype(cuStreamSynchronize)>("cuStreamSynchronize"),
              Find<decltype(cuMemAlloc_v2)>("cuMemAlloc_v2"),
              Find<decltype(cuMemFree_v2)>("cuMemFree_v2"),
              Find<decltype(cuMemcpyDtoH_v2)>("cuMemcpyDtoH_v2")};
  Check(Find<decltype(cuInit)>("cuInit")(0), "cuInit");
  Check(Find<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0),
        "cuDevicePrimaryCtxRetain");
  Check(Find<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  Check(Find<decltype(cuStreamCreate)>("cuStreamCreate")(&calls.stream, CU_STREAM_NON_BLOCKING),
        "cuStreamCreate");
  Check(calls.allocate(&calls.memory, 1 << 20), "cuMemAlloc");
  Check(Find<decltype(cuModuleLoadData)>("cuModuleLoadData")(&module, kEmptyKernel),
        "cuModuleLoadData");
  Check(Find<decltype(cuModuleGetFunction)>("cuModuleGetFunction")(&calls.empty, module, "empty"),
        "cuModuleGetFunction");
  return calls;
}

}  // namespace

extern "C" __attribute__((noinline)) void Counted(void (*call)(const Calls&), const Calls& calls) {
  for (int i = 0; i < kCalls; ++i) call(calls);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  void (*call)(const Calls&) = std::strcmp(what, "launch") == 0   ? Launch
                               : std::strcmp(what, "sync") == 0   ? Synchronize
                               : std::strcmp(what, "read") == 0   ? Read
                               : std::strcmp(what, "memory") == 0 ? Memory
                                                                  : nullptr;
  g_driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (call == nullptr || g_driver == nullptr) {
    std::fprintf(stderr, "calls: launch, sync, read or memory, and a libcuda.so.1\n");
    return 1;
  }
  Calls calls = Prepare();
  for (int i = 0; i < kWarmUp; ++i) call(calls);
  Synchronize(calls);
  Counted(call, calls);
  std::printf("%d\n", kCalls);
  return 0;
}
