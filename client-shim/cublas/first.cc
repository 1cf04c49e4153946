// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cublas/first.h"

#include <cuda.h>

#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "client-shim/core/report/fork_lock.h"
#include "client-shim/thin/forked.h"
#include "client-shim/thin/library.h"

#define CUBLAS_ENTRY extern "C" __attribute__((visibility("default"))) cublasStatus_t

namespace farcall::cublas {

namespace {

std::atomic<cublasStatus_t> g_error{CUBLAS_STATUS_SUCCESS};

// A handle for each context.
struct Handles {
  client::ForkLock mutex;
  std::map<CUcontext, cublasHandle_t> by_context;
};
Handles& TheHandles() {
  static auto* handles = new Handles;
  return *handles;
}

CUcontext CurrentContext() {
  CUcontext context = nullptr;
  if (thin::FindChannel() == nullptr) return nullptr;
  static const auto get = FARCALL_DRIVER(cuCtxGetCurrent);
  return get(&context) == CUDA_SUCCESS ? context : nullptr;
}

// Made at first use, as NVIDIA's is: programs leave cublasInit out.
cublasStatus_t GetHandle(cublasHandle_t* handle) {
  if (thin::IsForked()) return CUBLAS_STATUS_NOT_INITIALIZED;
  {
    CUcontext current = CurrentContext();
    std::lock_guard lock(TheHandles().mutex);
    auto found = TheHandles().by_context.find(current);
    if (found != TheHandles().by_context.end() && found->first != nullptr) {
      *handle = found->second;
      return CUBLAS_STATUS_SUCCESS;
    }
  }
  cublasStatus_t status = cublasCreate_v2(handle);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  CUcontext current = CurrentContext();
  std::unique_lock lock(TheHandles().mutex);
  auto [there, made] = TheHandles().by_context.emplace(current, *handle);
  if (made) return status;
  cublasHandle_t spare = std::exchange(*handle, there->second);  // another thread was first
  lock.unlock();
  cublasDestroy_v2(spare);
  return status;
}

}  // namespace

First::First(const char* name) : name_(name) {
  Say(GetHandle(&handle_));
}

void First::Say(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) g_error.store(status);
}

int First::OneOf(char letter, const char* letters, int position) {
  const char* found = letter == 0 ? nullptr : std::strchr(letters, std::toupper(letter));
  if (found != nullptr) return static_cast<int>(found - letters);
  ok_ = false;
  // As the reference BLAS says it.
  std::printf(" ** On entry to %-6s parameter number %d had an illegal value\n", name_, position);
  std::fflush(stdout);
  Say(CUBLAS_STATUS_INVALID_VALUE);
  return 0;
}

cublasOperation_t First::Operation(char letter, int position) {
  return static_cast<cublasOperation_t>(OneOf(letter, "NTC", position));
}
cublasFillMode_t First::Fill(char letter, int position) {
  return static_cast<cublasFillMode_t>(OneOf(letter, "LU", position));
}
cublasSideMode_t First::Side(char letter, int position) {
  return static_cast<cublasSideMode_t>(OneOf(letter, "LR", position));
}
cublasDiagType_t First::Diagonal(char letter, int position) {
  return static_cast<cublasDiagType_t>(OneOf(letter, "NU", position));
}

}  // namespace farcall::cublas

using farcall::cublas::CurrentContext;
using farcall::cublas::First;
using farcall::cublas::GetHandle;
using farcall::cublas::TheHandles;

namespace {

// Of what is no BLAS function, cublasGetError hears nothing.
template <typename Work>
cublasStatus_t WithHandle(Work work) {
  cublasHandle_t handle = nullptr;
  cublasStatus_t status = GetHandle(&handle);
  return status != CUBLAS_STATUS_SUCCESS ? status : work(handle);
}

}  // namespace

CUBLAS_ENTRY cublasInit() {
  return WithHandle([](cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; });
}

CUBLAS_ENTRY cublasShutdown() {
  if (farcall::thin::IsForked()) return CUBLAS_STATUS_NOT_INITIALIZED;
  CUcontext current = CurrentContext();
  std::unique_lock lock(TheHandles().mutex);
  auto found = TheHandles().by_context.find(current);
  if (found == TheHandles().by_context.end()) return CUBLAS_STATUS_SUCCESS;
  cublasHandle_t handle = found->second;
  TheHandles().by_context.erase(found);
  lock.unlock();
  return cublasDestroy_v2(handle);
}

CUBLAS_ENTRY cublasGetError() {
  return farcall::cublas::g_error.exchange(CUBLAS_STATUS_SUCCESS);
}

CUBLAS_ENTRY cublasGetVersion(int* version) {
  return WithHandle([=](cublasHandle_t handle) { return cublasGetVersion_v2(handle, version); });
}

CUBLAS_ENTRY cublasSetKernelStream(cudaStream_t stream) {
  return WithHandle([=](cublasHandle_t handle) { return cublasSetStream_v2(handle, stream); });
}

CUBLAS_ENTRY cublasAlloc(int n, int elemSize, void** devicePtr) {
  if (n <= 0 || elemSize <= 0 || devicePtr == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return WithHandle([=](cublasHandle_t) {
    static const auto allocate = FARCALL_DRIVER(cuMemAlloc_v2);
    CUdeviceptr memory = 0;
    if (allocate(&memory, static_cast<size_t>(n) * static_cast<size_t>(elemSize)) != CUDA_SUCCESS)
      return CUBLAS_STATUS_ALLOC_FAILED;
    *devicePtr = reinterpret_cast<void*>(memory);
    return CUBLAS_STATUS_SUCCESS;
  });
}

CUBLAS_ENTRY cublasFree(void* devicePtr) {
  return WithHandle([=](cublasHandle_t) {
    static const auto release = FARCALL_DRIVER(cuMemFree_v2);
    CUresult result = release(reinterpret_cast<CUdeviceptr>(devicePtr));
    return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
  });
}
