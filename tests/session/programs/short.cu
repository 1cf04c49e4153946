// SPDX-License-Identifier: Apache-2.0
// short THREADS CALLS: fills the device, gives half of it back in pieces that lie apart, and has so
// many threads ask as often, each time for more than all that is free. Meanwhile one thread more
// gives a piece back and takes one as large, which must be there. Prints how often it did.
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kPiece = 2 << 20;

void* Take(size_t bytes) {
  void* taken = nullptr;
  const cudaError_t status = cudaMalloc(&taken, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  CHECK(status);
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 2 ? std::atoi(argv[1]) : 0, calls = argc > 2 ? std::atoi(argv[2]) : 0;
  std::vector<void*> pieces;
  while (void* piece = Take(kPiece)) pieces.push_back(piece);
  EXPECT(pieces.size() > 8);
  for (size_t i = 0; i < pieces.size(); i += 2) CHECK(cudaFree(pieces[i]));
  CHECK(cudaDeviceSynchronize());
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  std::atomic<int> busy{threads};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < calls; ++i) EXPECT(Take(free + 2 * kPiece) == nullptr);
      --busy;
    });
  }
  long turns = 0;
  for (; busy.load() != 0; ++turns) {
    CHECK(cudaFree(pieces[1]));
    pieces[1] = Take(kPiece);
    EXPECT(pieces[1] != nullptr);
    std::this_thread::yield();
  }
  for (std::thread& thread : all) thread.join();
  size_t left = 0;
  CHECK(cudaMemGetInfo(&left, &total));
  EXPECT(left == free);
  std::printf("turns %ld\ndone\n", turns);
  return 0;
}
