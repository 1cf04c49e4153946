// SPDX-License-Identifier: Apache-2.0
// What the runtime adds to the driver: a launch by symbol against cuLaunchKernel, and calls that
// ask nothing of anyone. Runs on whichever libcudart.so.13 and libcuda.so.1 it finds; medians of
// many short rounds, since a machine that is shared has bad ones.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>

#include "median.h"

namespace {

constexpr int kCalls = 500;

__global__ void Empty(int) {}

template <typename Call>
double MedianNs(Call call) {
  return ::MedianNs(kCalls, call, [] { cudaDeviceSynchronize(); });
}

}  // namespace

int main() {
  int value = 1, device = 0;
  void* args[] = {&value};
  cudaStream_t stream = nullptr;
  cudaFunction_t function = nullptr;
  void* entry = nullptr;
  auto symbol = reinterpret_cast<const void*>(Empty);
  if (cudaStreamCreate(&stream) != cudaSuccess ||
      cudaGetFuncBySymbol(&function, symbol) != cudaSuccess ||
      cudaGetDriverEntryPointByVersion("cuLaunchKernel", &entry, CUDART_VERSION,
                                       cudaEnableDefault) != cudaSuccess) {
    std::printf("no device: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  auto launch = reinterpret_cast<decltype(&cuLaunchKernel)>(entry);
  double driver = MedianNs([&] { launch(function, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr); });
  double runtime = MedianNs([&] { cudaLaunchKernel(symbol, dim3(1), dim3(1), args, 0, stream); });
  double chevron = MedianNs([&] { Empty<<<1, 1, 0, stream>>>(value); });
  std::printf("cuLaunchKernel           %8.1f ns\n", driver);
  std::printf("cudaLaunchKernel         %8.1f ns, %.1f more\n", runtime, runtime - driver);
  std::printf("<<<>>>                   %8.1f ns, %.1f more\n", chevron, chevron - driver);
  std::printf("cudaGetLastError         %8.1f ns\n", MedianNs([] { cudaGetLastError(); }));
  std::printf("cudaPeekAtLastError      %8.1f ns\n", MedianNs([] { cudaPeekAtLastError(); }));
  std::printf("cudaGetDevice            %8.1f ns\n", MedianNs([&] { cudaGetDevice(&device); }));
  std::printf("cudaSetDevice            %8.1f ns\n", MedianNs([&] { cudaSetDevice(device); }));
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
