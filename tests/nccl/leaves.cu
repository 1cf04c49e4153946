// SPDX-License-Identifier: Apache-2.0
// Two ranks; one ends without a word while the other's all-reduce waits for it.
//
//   leaves stays|dies FILE
#include <cstring>

#include "tests/nccl/check.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int rank = std::strcmp(argv[1], "dies") == 0;
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaFree(nullptr));
  ncclComm_t comm = nullptr;
  CHECK_NCCL(ncclCommInitRank(&comm, 2, Meet(rank, argv[2]), rank));
  int* value = nullptr;
  CHECK_CUDA(cudaMalloc(&value, sizeof(int)));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  if (rank == 1) _exit(9);
  CHECK_NCCL(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, comm, stream));
  ncclResult_t error = ncclSuccess;
  while (error == ncclSuccess) {
    CHECK_NCCL(ncclCommGetAsyncError(comm, &error));
    usleep(10000);
  }
  if (error != ncclRemoteError || cudaStreamQuery(stream) != cudaErrorNotReady) return 1;
  CHECK_NCCL(ncclCommAbort(comm));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  std::printf("PASS\n");
}
