// SPDX-License-Identifier: Apache-2.0
// Versions, texts and the logger: nothing leaves the client but the first question.
#include <cublas_api.h>

#include <atomic>
#include <cstdio>

#include "client-shim/cublas/state.h"
#include "client-shim/cublas/status_text.h"
#include "client-shim/thin/call.h"
#include "generated/proto/cublas_call.h"

#define CUBLAS_ENTRY extern "C" __attribute__((visibility("default")))

namespace {

using farcall::thin::VersionPart;

std::atomic<cublasLogCallback> g_log_callback{nullptr};

}  // namespace

CUBLAS_ENTRY cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  // Without a handle as well: the real one takes null.
  if (handle != nullptr &&
      farcall::thin::Find(handle, farcall::cublas::kKind_cublasHandle_t) == nullptr)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *version = VersionPart(MAJOR_VERSION) * 10000 + VersionPart(MINOR_VERSION) * 100 +
             VersionPart(PATCH_LEVEL);
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL)
    return CUBLAS_STATUS_INVALID_VALUE;
  *value = VersionPart(type);
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY size_t cublasGetCudartVersion() {
  return static_cast<size_t>(VersionPart(MAJOR_VERSION)) * 1000 +
         static_cast<size_t>(VersionPart(MINOR_VERSION)) * 10;
}

CUBLAS_ENTRY const char* cublasGetStatusName(cublasStatus_t status) {
  return farcall::thin::CublasStatusName(status);
}

CUBLAS_ENTRY const char* cublasGetStatusString(cublasStatus_t status) {
  return farcall::thin::CublasStatusText(status);
}

// The library that would log runs on the server: its lines go to the server's log.
CUBLAS_ENTRY cublasStatus_t cublasLoggerConfigure(int, int, int, const char*) {
  return CUBLAS_STATUS_SUCCESS;
}
CUBLAS_ENTRY cublasStatus_t cublasSetLoggerCallback(cublasLogCallback userCallback) {
  g_log_callback.store(userCallback);
  return CUBLAS_STATUS_SUCCESS;
}
CUBLAS_ENTRY cublasStatus_t cublasGetLoggerCallback(cublasLogCallback* userCallback) {
  if (userCallback == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *userCallback = g_log_callback.load();
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY void cublasXerbla(const char* srName, int info) {
  std::fprintf(stderr, "parameter %d of %s has a value that is not allowed\n", info, srName);
}
