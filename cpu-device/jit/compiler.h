// SPDX-License-Identifier: Apache-2.0
// PTX kernel in, relocatable object out. The only door to LLVM: it lives in libfarcall_ptxjit.so,
// opened at the first compile, so that nothing of LLVM is visible to the process and a cached
// kernel never loads it.
#pragma once

#include <string>

#include "cpu-device/exec/layout.h"
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device::jit {

struct CompileRequest {
  const ptx::Module* module = nullptr;
  const ptx::Function* entry = nullptr;  // bodies of all functions of `layout` are parsed
  const KernelLayout* layout = nullptr;
  bool verify = false;
};

struct CompiledKernel {
  ExecStatus status = ExecStatus::kOk;
  std::string message;
  bool coroutine = false;
  std::string object;  // ELF, exports kKernelSymbol
};

inline constexpr char kCompileSymbol[] = "farcall_ptxjit_compile";
using CompileFunction = void (*)(const CompileRequest&, CompiledKernel*);

}  // namespace farcall::cpu_device::jit
