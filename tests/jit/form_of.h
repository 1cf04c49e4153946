// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "cpu-device/exec/compiler.h"
#include "cpu-device/exec/layout.h"

namespace farcall::cpu_device {

// What kernel `k` of a text is compiled to.
inline CodeForm FormOf(const std::string& text, bool quick = false) {
  static void* library = dlopen(FARCALL_PTXJIT_PATH, RTLD_NOW | RTLD_LOCAL);
  auto compile = reinterpret_cast<jit::CompileFunction>(dlsym(library, jit::kCompileSymbol));
  ptx::Module module;
  EXPECT_TRUE(ptx::Parse(text, &module).ok());
  ptx::Function* kernel = module.FindFunction("k");
  KernelLayout layout;
  EXPECT_EQ(ComputeLayout(module, *kernel, &layout), "");
  jit::CompileRequest request;
  request.module = &module;
  request.entry = kernel;
  request.layout = &layout;
  request.verify = true;
  request.quick = quick;
  jit::CompiledKernel compiled;
  compile(request, &compiled);
  EXPECT_EQ(compiled.message, "");
  return compiled.form;
}

}  // namespace farcall::cpu_device
