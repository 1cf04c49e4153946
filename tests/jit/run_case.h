// SPDX-License-Identifier: Apache-2.0
// One case of tests/ptx/corpus in the executor.
#pragma once

#include "cpu-device/texture/texture.h"
#include "tests/jit/program_fixture.h"
#include "tests/ptx/corpus/corpus.h"

namespace farcall::cpu_device {

// The object that an image is read or written through, over `place`.
inline uint64_t MakeObject(const ptx_corpus::Image& image, uint64_t place) {
  auto object = std::make_unique<texture::Object>();
  object->is_surface = image.is_surface;
  object->texels.texel = image.is_float ? texture::Texel::kFloat : texture::Texel::kU32;
  object->texels.channels = 4;
  object->texels.dimensions = static_cast<uint8_t>(image.dimensions);
  object->texels.layered = image.is_layered;
  object->texels.cubemap = image.is_cube;
  texture::Level level;
  level.base = reinterpret_cast<uint8_t*>(place);
  level.width = image.width;
  level.height = image.height;
  level.depth = image.depth;
  level.pitch = uint64_t{image.width} * 16;
  level.slice = level.pitch * image.height;
  object->texels.levels = {level};
  object->sampler.linear = image.is_linear;
  return texture::Register(std::move(object));
}

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
  std::vector<uint64_t> buffers(c.arguments.size()), handles(c.arguments.size());
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    const Argument& argument = c.arguments[i];
    const void* value = argument.bytes.data();
    size_t bytes = argument.bytes.size();
    if (argument.kind != Argument::Kind::kScalar) {
      if (places[i] == 0) places[i] = TestMemory::Get().Allocate(kPlaceBytes, 256);
      if (bytes > kPlaceBytes) return "a buffer of the case is too large";
      buffers[i] = places[i];
      if (bytes != 0) memcpy(reinterpret_cast<void*>(buffers[i]), value, bytes);
      value = &buffers[i];
      if (argument.kind == Argument::Kind::kImage) {
        handles[i] = MakeObject(argument.image, buffers[i]);
        value = &handles[i];
      }
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
  for (size_t i = 0; i < c.arguments.size(); ++i)
    if (handles[i] != 0) texture::Unregister(handles[i], c.arguments[i].image.is_surface);
  if (!result.ok()) return result.message;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    if (c.arguments[i].expected.empty()) continue;
    std::string difference =
        ptx_corpus::Compare(c.arguments[i], reinterpret_cast<const uint8_t*>(buffers[i]));
    if (!difference.empty()) return "argument " + std::to_string(i) + ": " + difference;
  }
  return {};
}

}  // namespace farcall::cpu_device
