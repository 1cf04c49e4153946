// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu-device/start.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "bench/cpu-device/device.h"

namespace farcall::bench {
namespace {

// 100 statements of what kernels are made of: addresses, loads, a comparison, float and integer
// arithmetic, a store. `nonce` makes the text new to every cache.
std::string Typical(uint32_t nonce) {
  std::string text =
      ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
      "  .reg .pred %p<2>;\n  .reg .b32 %r<8>;\n  .reg .f32 %f<8>;\n  .reg .b64 %rd<8>;\n"
      "  ld.param.u64 %rd0, [p];\n  mov.u32 %r0, %tid.x;\n  mul.wide.u32 %rd1, %r0, 4;\n"
      "  add.u64 %rd2, %rd0, %rd1;\n  mov.u32 %r1, " +
      std::to_string(nonce) + ";\n  cvt.rn.f32.u32 %f1, %r1;\n";
  for (int i = 0; i < 10; ++i) {
    const std::string label = "$L" + std::to_string(i);
    text +=
        "  ld.global.f32 %f2, [%rd2];\n  fma.rn.f32 %f3, %f2, %f1, %f2;\n"
        "  setp.gt.f32 %p1, %f3, 0f40000000;\n  @%p1 bra " +
        label + ";\n  mul.f32 %f3, %f3, 0f3F000000;\n" + label + ":\n  xor.b32 %r2, %r0, " +
        std::to_string(i * 77) +
        ";\n  and.b32 %r2, %r2, 31;\n  cvt.rn.f32.u32 %f4, %r2;\n"
        "  st.global.f32 [%rd2], %f4;\n  add.u64 %rd2, %rd2, 128;\n";
  }
  return text + "  ret;\n}\n";
}

double FirstUseMs(Device* device, CUdeviceptr memory, uint32_t nonce) {
  const std::string text = Typical(nonce);
  const double start = ProcessorMs();
  const CUfunction kernel = device->Find(device->Load(text.c_str()), "k");
  device->Launch(kernel, 1, 1, 32, 1, {&memory});
  device->Wait();
  return ProcessorMs() - start;
}

// The three figures that a child prints.
bool AskChild(const std::string& library, const std::string& cache, uint32_t nonce,
              double (&figures)[3]) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "FARCALL_CPU_CACHE='" + cache + "' '" + self + "' --child '" +
                              library + "' " + std::to_string(nonce);
  FILE* out = popen(command.c_str(), "r");
  if (out == nullptr) return false;
  const int read = fscanf(out, "%lf %lf %lf", &figures[0], &figures[1], &figures[2]);
  return pclose(out) == 0 && read == 3;
}

}  // namespace

int RunChild(const std::string& library, const std::string& nonce) {
  Device device(library);
  device.MakeContext();
  const CUdeviceptr memory = device.Allocate(1 << 16);
  device.Zero(memory, 1 << 16);
  const uint32_t number = static_cast<uint32_t>(strtoul(nonce.c_str(), nullptr, 10));
  const double first = FirstUseMs(&device, memory, number);
  const double second = FirstUseMs(&device, memory, number + 1);
  printf("%f %f %f\n", device.initialised_ms(), first, second);
  return 0;
}

StartFigures MeasureStart(const std::string& library, int rounds) {
  StartFigures best{1e9, 1e9, 1e9, 1e9};
  for (int round = 0; round < rounds; ++round) {
    char folder[] = "/tmp/farcall-bench-XXXXXX";
    if (mkdtemp(folder) == nullptr) break;
    const uint32_t nonce =
        static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count()) & ~1u;
    double cold[3], cached[3];
    const bool ok =
        AskChild(library, folder, nonce, cold) && AskChild(library, folder, nonce, cached);
    std::filesystem::remove_all(folder);
    if (!ok) {
      fprintf(stderr, "bench: a child process failed\n");
      exit(1);
    }
    best.initialised_ms = std::min({best.initialised_ms, cold[0], cached[0]});
    best.first_kernel_ms = std::min(best.first_kernel_ms, cold[1]);
    best.cold_kernel_ms = std::min(best.cold_kernel_ms, cold[2]);
    best.cached_kernel_ms = std::min(best.cached_kernel_ms, cached[2]);
  }
  return best;
}

}  // namespace farcall::bench
