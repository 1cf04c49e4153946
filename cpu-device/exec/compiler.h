// SPDX-License-Identifier: Apache-2.0
// PTX kernel in, relocatable object out. The only way to LLVM: it lives in libfarcall_ptxjit.so,
// opened at the first compile, so that nothing of LLVM is visible to the process and a cached
// kernel never loads it.
#pragma once

#include <string>

#include "cpu-device/exec/context.h"
#include "cpu-device/exec/layout.h"
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device::jit {

// Optimising is linear in practice up to so many statements; past it compile time is what a user
// waits for, and all code is quick code.
inline constexpr size_t kLargeKernel = 40000;

struct CompileRequest {
  const ptx::Module* module = nullptr;
  const ptx::Function* entry = nullptr;  // bodies of all functions of `layout` are parsed
  const KernelLayout* layout = nullptr;
  bool verify = false;
  bool quick = false;     // in a fraction of the time, to code that runs at a fraction of the speed
  bool lockstep = false;  // warps, at each access to memory of the entry
};

struct CompiledKernel {
  ExecStatus status = ExecStatus::kOk;
  std::string message;
  std::string notice;  // CachedKernel::notice
  CodeForm form = CodeForm::kLoop;
  std::string object;  // ELF, exports kKernelSymbol
};

inline constexpr char kCompileSymbol[] = "farcall_ptxjit_compile";
using CompileFunction = void (*)(const CompileRequest&, CompiledKernel*);

}  // namespace farcall::cpu_device::jit
