// SPDX-License-Identifier: Apache-2.0
// Compiles every kernel of the PTX files named, runs none. Prints what is not supported, by reason,
// and how many compiled.
//   jit_scan [--verify] [--max-kernels N] file.ptx...
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "cpu-device/exec/program.h"

using namespace farcall::cpu_device;

namespace {

class HostMemory final : public GlobalMemory {
 public:
  uint64_t Allocate(uint64_t bytes, uint64_t align) override {
    return reinterpret_cast<uint64_t>(aligned_alloc(align, (bytes + align - 1) / align * align));
  }
  void Free(uint64_t address) override { free(reinterpret_cast<void*>(address)); }
};

// "kernel K, line N: reason" to the reason.
std::string Reason(const std::string& message) {
  size_t line = message.find(", line ");
  size_t colon = line == std::string::npos ? std::string::npos : message.find(": ", line);
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

}  // namespace

int main(int argc, char** argv) {
  ExecutorOptions options;
  long limit = -1;
  std::map<std::string, std::pair<long, std::string>> reasons;
  long good = 0, bad = 0;
  double slowest = 0, total = 0;
  HostMemory memory;
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "--verify")) {
      options.verify_ir = true;
      continue;
    }
    if (!strcmp(argv[i], "--max-kernels")) {
      limit = atol(argv[++i]);
      continue;
    }
    ConfigureExecutor(options);
    std::ifstream file(argv[i]);
    std::stringstream text;
    text << file.rdbuf();
    std::unique_ptr<Program> program;
    ExecResult result = Program::Load(text.str(), memory, &program);
    if (!result.ok()) {
      ++bad;
      auto& entry = reasons["load: " + result.message];
      ++entry.first;
      entry.second = argv[i];
      continue;
    }
    for (const std::string& name : program->KernelNames()) {
      if (limit >= 0 && good + bad >= limit) break;
      auto start = std::chrono::steady_clock::now();
      result = program->FindKernel(name)->Prepare();
      double ms =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
              .count();
      total += ms;
      slowest = std::max(slowest, ms);
      if (result.ok()) {
        ++good;
        continue;
      }
      ++bad;
      auto& entry = reasons[Reason(result.message)];
      ++entry.first;
      entry.second = argv[i];
    }
  }
  for (const auto& [reason, entry] : reasons)
    printf("%6ld  %s  (%s)\n", entry.first, reason.substr(0, 300).c_str(), entry.second.c_str());
  printf("%ld kernels compiled, %ld not; %.0f ms, slowest %.0f ms\n", good, bad, total, slowest);
  return bad != 0;
}
