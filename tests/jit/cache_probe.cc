// SPDX-License-Identifier: Apache-2.0
// Runs one kernel with the cache directory given, for cache_test.cc: exit 0 if its result is right,
// 2 if it did not run.
#include <cstdio>

#include "cpu-device/exec/program.h"

namespace {

constexpr char kText[] = R"(
.version 9.0
.target sm_75
.address_size 64
.visible .entry store(.param .u64 out)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ntid.x;
  mad.lo.s32 %r2, %r1, 1000, 7;
  st.global.u32 [%rd1], %r2;
  bar.sync 0;
  ret;
}
)";

class NoGlobals final : public farcall::cpu_device::GlobalMemory {
  uint64_t Allocate(uint64_t, uint64_t) override { return 0; }
  void Free(uint64_t) override {}
};

}  // namespace

int main(int argc, char** argv) {
  using namespace farcall::cpu_device;
  if (argc != 2) return 3;
  ExecutorOptions options;
  options.cache_dir = argv[1];
  ConfigureExecutor(options);
  NoGlobals memory;
  std::unique_ptr<Program> program;
  ExecResult result = Program::Load(kText, memory, &program);
  if (result.ok()) {
    alignas(8) uint32_t out = 0;
    auto address = reinterpret_cast<uint64_t>(&out);
    LaunchConfig config;
    config.block = {4};
    result = program->FindKernel("store")->Run(config, &address);
    if (result.ok()) return out == 4007 ? 0 : 1;
  }
  fprintf(stderr, "%s\n", result.message.c_str());
  return 2;
}
