// SPDX-License-Identifier: Apache-2.0
// The CPU device's speed, in one run against the same loops in C++ at -O3 on the same cores.
//
//   cpu-device [--library PATH] [--rounds N] [--only NAME] [--json FILE]
//     NAME: elementwise, matmul, reduction, histogram, launch, barrier, shuffle, start
//
// All figures are of processor time, on all threads of the process, so they are those of one core
// and hold beside other work on the machine. Device and C++ run in turns, each figure is the best
// of the rounds. Results are compared.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/cpu-device/device.h"
#include "bench/cpu-device/native.h"
#include "bench/cpu-device/start.h"

namespace farcall::bench {
namespace {

struct Row {
  std::string what, unit;
  double device = 0, native = 0;  // native 0: there is no such loop
  std::string goal;
  bool met = false;
};

double BestSeconds(int rounds, const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double start = ProcessorMs();
    run();
    best = std::min(best, (ProcessorMs() - start) * 1e-3);
  }
  return best;
}

[[noreturn]] void Differs(const char* what) {
  fprintf(stderr, "bench: %s: the device's result is not the loop's\n", what);
  exit(1);
}

// Work in `amount` units of 1e9 a run, done by both.
Row Compare(const char* what, const char* unit, double amount, int rounds,
            const std::function<void()>& device, const std::function<void()>& native) {
  device();
  native();
  double on_device = 1e9, in_loop = 1e9;
  for (int i = 0; i < rounds; ++i) {
    on_device = std::min(on_device, BestSeconds(1, device));
    in_loop = std::min(in_loop, BestSeconds(1, native));
  }
  return {what, unit, amount / on_device / 1e9, amount / in_loop / 1e9, "", false};
}

void GoalRatio(Row* row, double ratio) {
  char text[64];
  snprintf(text, sizeof(text), ">= %.2f of C++", ratio);
  row->goal = text;
  row->met = row->device / row->native >= ratio;
}

// `each` is what one core does in the study's prototype; a machine this fast or faster has to reach
// it.
void GoalPerCore(Row* row, double each) {
  char text[64];
  snprintf(text, sizeof(text), ">= %.3g %s a core", each, row->unit.c_str());
  row->goal = text;
  row->met = row->device >= each;
}

void GoalBelow(Row* row, double limit) {
  char text[64];
  snprintf(text, sizeof(text), "<= %.3g %s", limit, row->unit.c_str());
  row->goal = text;
  row->met = row->device <= limit;
}

class Bench {
 public:
  Bench(const std::string& library, int rounds) : device_(library), rounds_(rounds) {
    std::ifstream file(FARCALL_BENCH_PTX);
    std::stringstream text;
    text << file.rdbuf();
    device_.MakeContext();
    module_ = device_.Load(text.str().c_str());
  }

  enum class Memory { kDevice, kPageLocked, kRegistered };

  Row Elementwise(const char* what, uint32_t n, unsigned block, Memory memory, uint32_t times = 1) {
    const float factor = 1.5f;
    std::vector<float> a(n), b(n), c(n), got(n);
    for (uint32_t i = 0; i < n; ++i)
      a[i] = static_cast<float>(i % 1000), b[i] = static_cast<float>(i % 77);
    std::vector<float> registered[3];
    CUdeviceptr at[3];
    for (int i = 0; i < 3; ++i) {
      if (memory == Memory::kRegistered) registered[i].resize(n);
      at[i] = memory == Memory::kDevice ? device_.Allocate(n * sizeof(float))
              : memory == Memory::kPageLocked
                  ? device_.AllocateHost(n * sizeof(float))
                  : device_.Register(registered[i].data(), n * sizeof(float));
    }
    device_.Up(at[0], a.data(), n * sizeof(float));
    device_.Up(at[1], b.data(), n * sizeof(float));
    const CUfunction kernel = device_.Find(module_, "Elementwise");
    Row row = Compare(
        what, "GB/s", 3.0 * n * sizeof(float) * times, rounds_,
        [&] {
          for (uint32_t i = 0; i < times; ++i)
            device_.Launch(kernel, (n + block - 1) / block, 1, block, 1,
                           {&at[0], &at[1], &at[2], &factor, &n});
          device_.Wait();
        },
        [&] { native::Elementwise(a.data(), b.data(), c.data(), factor, n, times); });
    device_.Down(got.data(), at[2], n * sizeof(float));
    if (std::memcmp(got.data(), c.data(), n * sizeof(float)) != 0) Differs(what);
    if (memory == Memory::kRegistered)
      for (const CUdeviceptr each : at) device_.Unregister(each);
    GoalRatio(&row, 0.8);
    return row;
  }

  Row Matmul() {
    const uint32_t n = 512;
    std::vector<float> a(n * n), b(n * n), c(n * n), got(n * n);
    for (uint32_t i = 0; i < n * n; ++i)
      a[i] = static_cast<float>(i % 7), b[i] = static_cast<float>(i % 5);
    const CUdeviceptr da = Uploaded(a), db = Uploaded(b),
                      dc = device_.Allocate(n * n * sizeof(float));
    const CUfunction kernel = device_.Find(module_, "Matmul");
    Row row = Compare(
        "matmul 512, tile 32", "GFLOP/s", 2.0 * n * n * n, rounds_,
        [&] {
          device_.Launch(kernel, n / 32, n / 32, 32, 32, {&da, &db, &dc, &n});
          device_.Wait();
        },
        [&] { native::Matmul(a.data(), b.data(), c.data(), n); });
    device_.Down(got.data(), dc, n * n * sizeof(float));
    if (got != c) Differs("matmul");  // whole numbers below 2^24: exact in any order
    GoalPerCore(&row, 2.1);
    return row;
  }

  Row Reduce() {
    const uint32_t n = 16u << 20, blocks = n / (256 * 128);
    std::vector<float> a(n), sums(blocks);
    for (uint32_t i = 0; i < n; ++i) a[i] = static_cast<float>(i % 2);
    const CUdeviceptr da = Uploaded(a), out = device_.Allocate(blocks * sizeof(float));
    const CUfunction kernel = device_.Find(module_, "Reduce");
    float sum = 0;
    Row row = Compare(
        "reduction with shuffles", "GB/s", 1.0 * n * sizeof(float), rounds_,
        [&] {
          device_.Launch(kernel, blocks, 1, 256, 1, {&da, &out, &n});
          device_.Wait();
        },
        [&] { sum = native::Reduce(a.data(), n); });
    device_.Down(sums.data(), out, blocks * sizeof(float));
    float got = 0;
    for (float part : sums) got += part;
    if (got != sum) Differs("reduction");
    GoalPerCore(&row, 3.7);
    return row;
  }

  Row Histogram() {
    const uint32_t n = 32u << 20, blocks = n / (256 * 256), bins = 256;
    std::vector<uint8_t> values(n);
    for (uint32_t i = 0; i < n; ++i) values[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
    const CUdeviceptr in = Uploaded(values), out = device_.Allocate(bins * sizeof(uint32_t));
    const CUfunction kernel = device_.Find(module_, "Histogram");
    std::vector<uint32_t> counts(bins), got(bins);
    Row row = Compare(
        "shared-memory histogram", "Gelem/s", n, rounds_,
        [&] {
          device_.Zero(out, bins * sizeof(uint32_t));
          device_.Launch(kernel, blocks, 1, 256, 1, {&in, &out, &n});
          device_.Wait();
        },
        [&] {
          std::fill(counts.begin(), counts.end(), 0);
          native::Histogram(values.data(), counts.data(), n);
        });
    device_.Down(got.data(), out, bins * sizeof(uint32_t));
    if (got != counts) Differs("histogram");
    GoalPerCore(&row, 0.22);
    return row;
  }

  Row EmptyLaunch() {
    constexpr int kLaunches = 500, kBursts = 20;
    const CUfunction kernel = device_.Find(module_, "Empty");
    const double best = BestSeconds(rounds_ * kBursts, [&] {
      for (int i = 0; i < kLaunches; ++i) device_.Launch(kernel, 1, 1, 32, 1, {});
      device_.Wait();
    });
    Row row{"launch of an empty kernel", "us", best / kLaunches * 1e6, 0, "", false};
    GoalBelow(&row, 3);
    return row;
  }

  // Nanoseconds of one core that a thread pays for each.
  Row PerThread(const char* what, const char* name, double limit) {
    const uint32_t count = 500, block = 256, blocks = 8 * native::Cores();
    const CUfunction kernel = device_.Find(module_, name);
    const CUdeviceptr out = device_.Allocate(blocks * sizeof(uint32_t));
    const double best = BestSeconds(rounds_ + 1, [&] {
      device_.Launch(kernel, blocks, 1, block, 1, {&out, &count});
      device_.Wait();
    });
    Row row{what, "ns", best / (1.0 * blocks * block * count) * 1e9, 0, "", false};
    GoalBelow(&row, limit);
    return row;
  }

 private:
  template <typename T>
  CUdeviceptr Uploaded(const std::vector<T>& values) {
    const CUdeviceptr at = device_.Allocate(values.size() * sizeof(T));
    device_.Up(at, values.data(), values.size() * sizeof(T));
    return at;
  }
  Device device_;
  CUmodule module_ = nullptr;
  int rounds_;
};

void Print(const std::vector<Row>& rows) {
  printf("| what | device | C++ | ratio | goal | met |\n|---|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    char loop[48] = "", ratio[32] = "";
    if (row.native > 0) {
      snprintf(loop, sizeof(loop), "%.3g %s", row.native, row.unit.c_str());
      snprintf(ratio, sizeof(ratio), "%.2f", row.device / row.native);
    }
    printf("| %s | %.3g %s | %s | %s | %s | %s |\n", row.what.c_str(), row.device, row.unit.c_str(),
           loop, ratio, row.goal.c_str(),
           row.goal.empty() ? ""
           : row.met        ? "yes"
                            : "no");
  }
}

void WriteJson(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream out(path);
  out << "{\n \"cores\": " << native::Cores();
  for (const Row& row : rows) {
    out << ",\n \"" << row.what << "\": {\"unit\": \"" << row.unit
        << "\", \"device\": " << row.device << ", \"native\": " << row.native << ", \"goal\": \""
        << row.goal << "\"}";
  }
  out << "\n}\n";
}

Row Once(const char* what, double ms, double limit) {
  Row row{what, "ms", ms, 0, "", false};
  if (limit > 0) GoalBelow(&row, limit);
  return row;
}

struct Options {
  std::string library = FARCALL_BENCH_LIBRARY, json, only;
  int rounds = 7;
};

int Run(const Options& options) {
  const auto wanted = [&](const std::string& what) {
    return what.find(options.only) != std::string::npos;
  };
  Bench bench(options.library, options.rounds);
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::function<Row()>& row) {
    if (wanted(name)) rows.push_back(row());
  };
  const auto elementwise = [&](const char* what, uint32_t n, unsigned block, Bench::Memory memory,
                               uint32_t times = 1) {
    add("elementwise", [&] { return bench.Elementwise(what, n, block, memory, times); });
  };
  constexpr uint32_t kMany = 16u << 20, kFew = 128u << 10;
  using enum Bench::Memory;
  elementwise("elementwise f32, 64 MiB", kMany, 256, kDevice);
  elementwise("the same, blocks of 1024", kMany, 1024, kDevice);
  elementwise("the same, last block cut short", kMany - 100, 256, kDevice);
  elementwise("the same, page-locked memory", kMany, 256, kPageLocked);
  elementwise("the same, registered memory", kMany, 256, kRegistered);
  elementwise("elementwise f32, 512 KiB", kFew, 256, kDevice, 50);
  elementwise("512 KiB of page-locked memory", kFew, 256, kPageLocked, 50);
  add("matmul", [&] { return bench.Matmul(); });
  add("reduction", [&] { return bench.Reduce(); });
  add("histogram", [&] { return bench.Histogram(); });
  add("launch", [&] { return bench.EmptyLaunch(); });
  add("barrier", [&] { return bench.PerThread("barrier, a thread", "Barriers", 5); });
  add("shuffle", [&] { return bench.PerThread("shuffle, a lane", "Shuffles", 7.8); });
  if (wanted("start")) {
    const StartFigures start = MeasureStart(options.library, options.rounds);
    rows.push_back(Once("first use of a kernel of 100 statements", start.cold_kernel_ms, 15));
    rows.push_back(Once("the same, first of its process", start.first_kernel_ms, 0));
    rows.push_back(Once("the same, from the disk cache", start.cached_kernel_ms, 1));
    rows.push_back(Once("libcuda loaded and initialised", start.initialised_ms, 30));
  }
  printf("%u cores, best of %d rounds\n\n", native::Cores(), options.rounds);
  Print(rows);
  if (!options.json.empty()) WriteJson(options.json, rows);
  return 0;
}

}  // namespace
}  // namespace farcall::bench

int main(int argc, char** argv) {
  farcall::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--child" && i + 2 < argc)
      return farcall::bench::RunChild(argv[i + 1], argv[i + 2]);
    if (option == "--library" && has_value) {
      options.library = argv[++i];
    } else if (option == "--rounds" && has_value && atoi(argv[i + 1]) > 0) {
      options.rounds = atoi(argv[++i]);
    } else if (option == "--only" && has_value) {
      options.only = argv[++i];
    } else if (option == "--json" && has_value) {
      options.json = argv[++i];
    } else {
      fprintf(stderr,
              "cpu-device: '%s': wanted is --library PATH, --rounds N (1 or more), --only NAME, "
              "--json FILE\n",
              argv[i]);
      return 2;
    }
  }
  return farcall::bench::Run(options);
}
