// SPDX-License-Identifier: Apache-2.0
// What Farcall lacks, through the runtime: it looks names up by cuGetProcAddress and calls none
// that it did not get.
#include <cuda.h>

#include "check.h"
#include "driver.h"

int main() {
  CHECK(cudaFree(nullptr));
  cudaExternalSemaphore_t semaphore = nullptr;
  cudaExternalSemaphoreHandleDesc description{};
  description.type = cudaExternalSemaphoreHandleTypeOpaqueFd;
  EXPECT(cudaImportExternalSemaphore(&semaphore, &description) == cudaErrorCallRequiresNewerDriver);
  cudaGraphicsResource_t resource = nullptr;
  EXPECT(cudaGraphicsMapResources(1, &resource, nullptr) == cudaErrorCallRequiresNewerDriver);
  EXPECT(cudaGetLastError() == cudaErrorCallRequiresNewerDriver);  // and nothing sticks
  CHECK(cudaDeviceSynchronize());

  for (const char* name : {"cuImportExternalSemaphore", "cuGraphicsMapResources", "cuNoSuchCall"}) {
    void* entry = &entry;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSuccess;
    CHECK(cudaGetDriverEntryPointByVersion(name, &entry, 13000, cudaEnableDefault, &found));
    EXPECT(entry == nullptr && found == cudaDriverEntryPointSymbolNotFound);
    // The driver's own: a code only in CUDA 11's form, which has no status.
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    entry = &entry;
    CU_CHECK(CU(cuGetProcAddress_v2)(name, &entry, 13000, 0, &status));
    EXPECT(entry == nullptr && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    entry = &entry;
    auto* older = reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(
        DriverFunction("cuGetProcAddress"));
    EXPECT(older(name, &entry, 13000, 0) == CUDA_ERROR_NOT_FOUND && entry == nullptr);
  }
  // By its exported name it is there, and says what it is.
  CUexternalSemaphore there = nullptr;
  CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC wanted{};
  EXPECT(CU(cuImportExternalSemaphore)(&there, &wanted) == CUDA_ERROR_NOT_SUPPORTED);
  std::printf("done\n");
  return 0;
}
