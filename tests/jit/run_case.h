// SPDX-License-Identifier: Apache-2.0
// One case of tests/ptx/corpus in the executor.
#pragma once

#include "tests/jit/program_fixture.h"
#include "tests/ptx/corpus/corpus.h"

namespace farcall::cpu_device {

// Empty if it gives the bytes expected; else what went wrong.
inline std::string RunCase(const ptx_corpus::Case& c) {
  using ptx_corpus::Argument;
  std::unique_ptr<Program> program;
  ExecResult result = Program::Load(c.ptx, TestMemory::Get(), &program);
  if (!result.ok()) return result.message;
  Kernel* kernel = program->FindKernel(c.kernel);
  if (kernel == nullptr) return "no kernel " + c.kernel;
  const KernelInfo& info = kernel->info();
  if (info.params.size() != c.arguments.size()) return "parameters differ from the case's";
  std::vector<uint8_t> block(info.param_bytes + 1);
  // The same places again for the next case.
  static std::map<size_t, uint64_t> places;
  constexpr size_t kPlaceBytes = 1 << 20;
  std::vector<uint64_t> buffers(c.arguments.size());
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    const Argument& argument = c.arguments[i];
    const void* value = argument.bytes.data();
    size_t bytes = argument.bytes.size();
    if (argument.kind != Argument::Kind::kScalar) {
      if (places[i] == 0) places[i] = TestMemory::Get().Allocate(kPlaceBytes, 256);
      if (bytes > kPlaceBytes) return "a buffer of the case is too large";
      buffers[i] = places[i];
      memcpy(reinterpret_cast<void*>(buffers[i]), value, bytes);
      value = &buffers[i];
      bytes = 8;
    }
    if (info.params[i].size_bytes != bytes) return "parameter sizes differ from the case's";
    memcpy(block.data() + info.params[i].offset_bytes, value, bytes);
  }
  LaunchConfig config;
  config.grid = {c.grid.x, c.grid.y, c.grid.z};
  config.block = {c.block.x, c.block.y, c.block.z};
  config.cluster = {c.cluster.x, c.cluster.y, c.cluster.z};
  config.dynamic_shared_bytes = c.dynamic_shared_bytes;
  result = kernel->Run(config, block.data());
  if (!result.ok()) return result.message;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    if (c.arguments[i].kind != Argument::Kind::kOutput) continue;
    std::string difference =
        ptx_corpus::Compare(c.arguments[i], reinterpret_cast<const uint8_t*>(buffers[i]));
    if (!difference.empty()) return "argument " + std::to_string(i) + ": " + difference;
  }
  return {};
}

}  // namespace farcall::cpu_device
