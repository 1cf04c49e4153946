// SPDX-License-Identifier: Apache-2.0
// Programs whose memory may leave the device while they pause: at each `round` they wait for a line
// of their standard input.
//   swapped storm SEED ROUNDS: allocates, frees, writes and copies at random; all bytes are
//   compared. swapped chain ROUNDS: a list whose links lie in device memory, also in a graph
//   captured before. swapped host ROUNDS: mapped, registered and managed host memory beside device
//   memory. swapped work MEBIBYTES ROUNDS [PAUSE_MS [PASSES]]: works through all its memory, so
//   often a round; waits for nobody. swapped many COUNT MEBIBYTES: so many allocations, one after
//   the other; what was refused.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using Words = std::vector<uint32_t>;

__global__ void Affine(uint32_t* data, size_t count, uint32_t factor, uint32_t term) {
  size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    data[i] = data[i] * factor + term + static_cast<uint32_t>(i);
}

void Expect(Words* data, uint32_t factor, uint32_t term) {
  for (size_t i = 0; i < data->size(); ++i)
    (*data)[i] = (*data)[i] * factor + term + static_cast<uint32_t>(i);
}

void Pause(int round) {
  std::printf("round %d\n", round);
  std::fflush(stdout);
  char line[64];
  if (std::fgets(line, sizeof(line), stdin) == nullptr) std::exit(4);
}

struct Buffer {
  uint32_t* device = nullptr;
  bool pooled = false;
  Words expected;
};

class Storm {
 public:
  explicit Storm(uint32_t seed) : random_(seed) { CHECK(cudaStreamCreate(&stream_)); }

  void Step() {
    uint32_t what = random_() % 8;
    if (buffers_.size() < 3 || (what == 0 && buffers_.size() < 24)) return Allocate();
    Buffer& one = buffers_[random_() % buffers_.size()];
    Buffer& other = buffers_[random_() % buffers_.size()];
    size_t count = one.expected.size();
    size_t common = std::min(count, other.expected.size());
    if (what == 1) {
      Free(random_() % buffers_.size());
    } else if (what == 2) {
      size_t at = random_() % count, words = random_() % (count - at) + 1;
      Words fresh(words);
      for (uint32_t& word : fresh) word = random_();
      std::copy(fresh.begin(), fresh.end(), one.expected.begin() + at);
      CHECK(cudaMemcpy(one.device + at, fresh.data(), words * 4, cudaMemcpyHostToDevice));
    } else if (what == 3 && &one != &other) {
      std::copy_n(one.expected.begin(), common, other.expected.begin());
      CHECK(
          cudaMemcpyAsync(other.device, one.device, common * 4, cudaMemcpyDeviceToDevice, stream_));
    } else if (what == 4) {
      std::fill(one.expected.begin(), one.expected.end(), 0xA5A5A5A5u);
      CHECK(cudaMemsetAsync(one.device, 0xA5, count * 4, stream_));
    } else {
      uint32_t factor = random_() | 1, term = random_();
      Expect(&one.expected, factor, term);
      Affine<<<16, 128, 0, stream_>>>(one.device, count, factor, term);
      CHECK(cudaGetLastError());
    }
    CHECK(cudaStreamSynchronize(stream_));
  }

  void Compare() {
    for (const Buffer& buffer : buffers_) {
      Words got(buffer.expected.size());
      CHECK(cudaMemcpy(got.data(), buffer.device, got.size() * 4, cudaMemcpyDeviceToHost));
      EXPECT(got == buffer.expected);
    }
  }

 private:
  void Allocate() {
    Buffer buffer;
    size_t count = random_() % (random_() % 6 == 0 ? 3u << 20 : 64u << 10) + 1;
    buffer.pooled = random_() % 3 == 0;
    if (buffer.pooled)
      CHECK(cudaMallocAsync(&buffer.device, count * 4, stream_));
    else
      CHECK(cudaMalloc(&buffer.device, count * 4));
    buffer.expected.assign(count, 0x01010101u);
    CHECK(cudaMemsetAsync(buffer.device, 1, count * 4, stream_));
    CHECK(cudaStreamSynchronize(stream_));
    buffers_.push_back(std::move(buffer));
  }

  void Free(size_t index) {
    Buffer& buffer = buffers_[index];
    if (buffer.pooled)
      CHECK(cudaFreeAsync(buffer.device, stream_));
    else
      CHECK(cudaFree(buffer.device));
    buffers_.erase(buffers_.begin() + index);
  }

  std::mt19937 random_;
  cudaStream_t stream_ = nullptr;
  std::vector<Buffer> buffers_;
};

int RunStorm(uint32_t seed, int rounds) {
  Storm storm(seed);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 20; ++i) storm.Step();
    Pause(round);
    storm.Compare();
  }
  return 0;
}

struct Link {
  Link* next;
  uint64_t value;
};

__global__ void Walk(Link* first, uint64_t* sum) {
  *sum = 0;
  for (Link* link = first; link != nullptr; link = link->next) {
    *sum += link->value;
    link->value += 1;
  }
}

int RunChain(int rounds) {
  constexpr int kLinks = 32;
  Link* first = nullptr;
  for (int i = 0; i < kLinks; ++i) {
    Link link{first, static_cast<uint64_t>(i)};
    CHECK(cudaMalloc(&first, i % 4 == 0 ? 3 << 20 : sizeof(Link)));
    CHECK(cudaMemcpy(first, &link, sizeof(link), cudaMemcpyHostToDevice));
  }
  uint64_t *sum = nullptr, *copied = nullptr, got = 0;
  CHECK(cudaMalloc(&sum, sizeof(*sum)));
  CHECK(cudaMalloc(&copied, sizeof(*copied)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  Walk<<<1, 1, 0, stream>>>(first, sum);
  CHECK(cudaMemcpyAsync(copied, sum, sizeof(*sum), cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  uint64_t expected = kLinks * (kLinks - 1) / 2;
  for (int round = 0; round < rounds; ++round, expected += kLinks) {
    Pause(round);
    CHECK(cudaGraphLaunch(exec, stream));  // the first thing behind the pause
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&got, copied, sizeof(got), cudaMemcpyDeviceToHost));
    EXPECT(got == expected);
  }
  return 0;
}

int RunHost(int rounds) {
  constexpr size_t kWords = 64 << 10;
  uint32_t *mapped = nullptr, *managed = nullptr, *device = nullptr;
  CHECK(cudaHostAlloc(&mapped, kWords * 4, cudaHostAllocMapped));
  CHECK(cudaMallocManaged(&managed, kWords * 4));
  CHECK(cudaMalloc(&device, kWords * 4));
  std::vector<Words> expected(3, Words(kWords));
  std::memset(mapped, 0, kWords * 4);
  std::memset(managed, 0, kWords * 4);
  CHECK(cudaMemset(device, 0, kWords * 4));
  for (int round = 0; round < rounds; ++round) {
    uint32_t* all[] = {mapped, managed, device};
    mapped[round] = managed[round] = expected[0][round] = expected[1][round] = 77;
    for (int i = 0; i < 3; ++i) {
      Affine<<<4, 64>>>(all[i], kWords, 3, i);
      Expect(&expected[i], 3, i);
    }
    CHECK(cudaDeviceSynchronize());
    Pause(round);
    EXPECT(std::memcmp(mapped, expected[0].data(), kWords * 4) == 0);
    EXPECT(std::memcmp(managed, expected[1].data(), kWords * 4) == 0);
    Words got(kWords);
    CHECK(cudaMemcpy(got.data(), device, kWords * 4, cudaMemcpyDeviceToHost));
    EXPECT(got == expected[2]);
  }
  return 0;
}

int RunWork(size_t mebibytes, int rounds, int pause_ms, int passes) {
  constexpr size_t kPiece = 8 << 20;
  std::vector<uint32_t*> pieces(mebibytes / 8);
  for (uint32_t*& piece : pieces) {
    CHECK(cudaMalloc(&piece, kPiece));
    CHECK(cudaMemset(piece, 0, kPiece));
  }
  Words expected(kPiece / 4), got(kPiece / 4);
  for (int round = 0; round < rounds; ++round) {
    for (int pass = 0; pass < passes; ++pass) {
      for (uint32_t* piece : pieces) Affine<<<32, 128>>>(piece, kPiece / 4, 5, round);
      Expect(&expected, 5, round);
    }
    CHECK(cudaDeviceSynchronize());
    std::printf("worked %d\n", round);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  }
  for (uint32_t* piece : pieces) {
    CHECK(cudaMemcpy(got.data(), piece, kPiece, cudaMemcpyDeviceToHost));
    EXPECT(got == expected);
  }
  return 0;
}

int RunMany(int count, size_t mebibytes) {
  int refused = 0;
  for (int i = 0; i < count; ++i) {
    void* data = nullptr;
    cudaError_t status = cudaMalloc(&data, mebibytes << 20);
    EXPECT(status == cudaSuccess || status == cudaErrorMemoryAllocation);
    refused += status != cudaSuccess;
  }
  std::printf("refused %d\n", refused);
  Pause(0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  std::string what = argc > 1 ? argv[1] : "";
  int code = what == "storm"   ? RunStorm(static_cast<uint32_t>(number(2, 1)), number(3, 4))
             : what == "chain" ? RunChain(number(2, 3))
             : what == "host"  ? RunHost(number(2, 3))
             : what == "work"  ? RunWork(static_cast<size_t>(number(2, 64)), number(3, 8),
                                         number(4, 0), number(5, 1))
             : what == "many"  ? RunMany(number(2, 8), static_cast<size_t>(number(3, 8)))
                               : 2;
  if (code == 0) std::printf("done\n");
  return code;
}
