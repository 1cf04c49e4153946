// SPDX-License-Identifier: Apache-2.0
// prints reset|destroy|sync: a kernel prints, one call ends its context or waits for it, and the
// program ends without another word to the driver.
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "check.h"
#include "driver.h"

__global__ void Print() {
  printf("printed on the device\n");
}

static void InContextOfItsOwn() {
  CUcontext context;
  CUdevice device;
  CHECK(cudaFree(nullptr));
  CU_CHECK(CU(cuDeviceGet)(&device, 0));
  CU_CHECK(CU(cuCtxCreate)(&context, nullptr, 0, device));
  Print<<<1, 1>>>();
  CHECK(cudaGetLastError());
  CU_CHECK(CU(cuCtxDestroy)(context));
}

int main(int count, char** arguments) {
  const std::string how = count > 1 ? arguments[1] : "";
  if (how == "destroy") {
    InContextOfItsOwn();
  } else {
    Print<<<1, 1>>>();
    CHECK(how == "reset" ? cudaDeviceReset() : cudaDeviceSynchronize());
  }
  std::fflush(stdout);
  _exit(0);
}
