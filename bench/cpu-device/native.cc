// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu-device/native.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

namespace farcall::bench::native {
namespace {

// work(core, begin, end) on equal parts of [0, n), the caller's thread among them.
template <typename Work>
void Spread(uint32_t n, const Work& work) {
  const unsigned cores = Cores();
  std::vector<std::thread> threads;
  const auto at = [&](unsigned core) { return static_cast<uint32_t>(uint64_t{n} * core / cores); };
  for (unsigned core = 1; core < cores; ++core)
    threads.emplace_back([&, core] { work(core, at(core), at(core + 1)); });
  work(0u, 0u, at(1));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

unsigned Cores() {
  return std::max(1u, std::thread::hardware_concurrency());
}

void Elementwise(const float* a, const float* b, float* c, float factor, uint32_t n,
                 uint32_t times) {
  Spread(n, [&](unsigned, uint32_t begin, uint32_t end) {
    for (uint32_t time = 0; time < times; ++time) {
      for (uint32_t i = begin; i < end; ++i) c[i] = a[i] * factor + b[i];
      asm volatile("" : : "r"(c) : "memory");  // each time anew
    }
  });
}

void Matmul(const float* a, const float* b, float* c, uint32_t n) {
  Spread(n, [&](unsigned, uint32_t begin, uint32_t end) {
    for (uint32_t row = begin; row < end; ++row) {
      std::fill_n(c + row * n, n, 0.0f);
      for (uint32_t k = 0; k < n; ++k) {
        const float left = a[row * n + k];
        for (uint32_t column = 0; column < n; ++column)
          c[row * n + column] += left * b[k * n + column];
      }
    }
  });
}

float Reduce(const float* a, uint32_t n) {
  std::vector<float> sums(Cores());
  Spread(n, [&](unsigned core, uint32_t begin, uint32_t end) {
    float sum = 0;
    for (uint32_t i = begin; i < end; ++i) sum += a[i];
    sums[core] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0f);
}

void Histogram(const uint8_t* values, uint32_t* bins, uint32_t n) {
  constexpr uint32_t kBins = 256;
  std::vector<std::vector<uint32_t>> counts(Cores());
  Spread(n, [&](unsigned core, uint32_t begin, uint32_t end) {
    std::vector<uint32_t> own(kBins);
    for (uint32_t i = begin; i < end; ++i) ++own[values[i]];
    counts[core] = std::move(own);
  });
  for (const auto& own : counts)
    for (uint32_t bin = 0; bin < kBins; ++bin) bins[bin] += own[bin];
}

}  // namespace farcall::bench::native
