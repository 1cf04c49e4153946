// SPDX-License-Identifier: Apache-2.0
// What the thin libraries add to a record: a product of cuBLAS's and a convolution of cuDNN's
// against a memset of the driver's, which is a record and no more, and calls that send nothing.
// Medians of many short rounds. Knows the libraries by name alone; run by `farcall run --thin`.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "median.h"

namespace {

constexpr int kCalls = 200;

void* Open(const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    std::exit(1);
  }
  return library;
}

// What it returns is its status; what it takes is what the caller passes.
struct Function {
  template <typename... Args>
  int operator()(Args... args) const {
    return reinterpret_cast<int (*)(Args...)>(address)(args...);
  }
  template <typename... Args>
  void Must(Args... args) const {
    const int status = (*this)(args...);
    if (status == 0) return;
    std::printf("%s: %d\n", name, status);
    std::exit(1);
  }
  const char* name;
  void* address;
};

Function Find(void* library, const char* name) {
  return {name, dlsym(library, name)};
}

template <typename Call>
double MedianNs(const Function& wait, Call call) {
  return ::MedianNs(kCalls, call, [&] { wait.Must(); });
}

}  // namespace

int main() {
  void* cuda = Open("libcuda.so.1");
  void* blas = Open("libcublas.so.13");
  void* dnn = Open("libcudnn.so.9");
  void *product = nullptr, *network = nullptr, *stream = nullptr;
  uint64_t room = 0;
  Find(blas, "cublasCreate_v2").Must(&product);
  Find(cuda, "cuStreamCreate").Must(&stream, 1u);
  Find(cuda, "cuMemAlloc_v2").Must(&room, size_t{1} << 20);
  Find(blas, "cublasSetStream_v2").Must(product, stream);
  Find(dnn, "cudnnCreate").Must(&network);
  Find(dnn, "cudnnSetStream").Must(network, stream);
  void *tensor = nullptr, *filter = nullptr, *convolution = nullptr;
  Find(dnn, "cudnnCreateTensorDescriptor").Must(&tensor);
  Find(dnn, "cudnnSetTensor4dDescriptor").Must(tensor, 0, 0, 1, 4, 8, 8);
  Find(dnn, "cudnnCreateFilterDescriptor").Must(&filter);
  Find(dnn, "cudnnSetFilter4dDescriptor").Must(filter, 0, 0, 4, 4, 3, 3);
  Find(dnn, "cudnnCreateConvolutionDescriptor").Must(&convolution);
  Find(dnn, "cudnnSetConvolution2dDescriptor").Must(convolution, 1, 1, 1, 1, 1, 1, 1, 0);
  const Function wait = Find(cuda, "cuCtxSynchronize");
  const Function memset = Find(cuda, "cuMemsetD32Async"), gemm = Find(blas, "cublasSgemm_v2");
  const Function set_stream = Find(blas, "cublasSetStream_v2");
  const Function forward = Find(dnn, "cudnnConvolutionForward");
  const float one = 1, zero = 0;
  const auto at = [room](uint64_t part) { return reinterpret_cast<void*>(room + (part << 16)); };
  const double record = MedianNs(wait, [&] { memset.Must(room, 0u, size_t{16}, stream); });
  const double sgemm = MedianNs(
      wait, [&] { gemm.Must(product, 0, 0, 2, 2, 2, &one, at(0), 2, at(1), 2, &zero, at(2), 2); });
  const double convolve = MedianNs(wait, [&] {
    forward.Must(network, &one, tensor, at(0), filter, at(1), convolution, 1, at(4),
                 size_t{1} << 19, &zero, tensor, at(2));
  });
  std::printf("cuMemsetD32Async         %8.1f ns\n", record);
  std::printf("cublasSgemm              %8.1f ns, %.1f more\n", sgemm, sgemm - record);
  std::printf("cudnnConvolutionForward  %8.1f ns, %.1f more\n", convolve, convolve - record);
  std::printf("cublasSetStream          %8.1f ns\n",
              MedianNs(wait, [&] { set_stream.Must(product, stream); }));
  return 0;
}
