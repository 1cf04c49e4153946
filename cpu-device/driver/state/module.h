// SPDX-License-Identifier: Apache-2.0
// Modules (a program in one context), libraries (a program for every context), and the functions
// and kernels in them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/registry.h"
#include "cpu-device/driver/state/executor.h"

namespace farcall::cpu_device {

class Context;
class Module;

// A program with what it lives on.
struct LoadedProgram {
  explicit LoadedProgram(Context& context) : globals(context) {}
  ContextGlobals globals;
  std::string ptx;
  std::unique_ptr<Program> program;
};

//   Errors  ResultOf(Program::Load); the message goes to `error` and the log
CUresult LoadProgram(Context& context, std::string ptx, std::shared_ptr<LoadedProgram>* loaded,
                     std::string* error);

class Function {
 public:
  Function(Module& module, Context& context, std::shared_ptr<LoadedProgram> program, Kernel& kernel)
      : module_(module), context_(context), program_(std::move(program)), kernel_(kernel) {}

  Module& module() const { return module_; }
  Context& context() const { return context_; }
  Kernel& kernel() const { return kernel_; }
  const KernelInfo& info() const { return kernel_.info(); }
  const std::string& name() const { return kernel_.info().name; }
  CUfunction handle() { return reinterpret_cast<CUfunction>(this); }

  // Compiles the kernel, once. Its failure is every later launch's, too.
  CUresult Load();

  std::atomic<int> max_dynamic_shared{-1};  // -1: not set, the default limit holds
  std::atomic<int> carveout{-1};
  std::atomic<bool> non_portable_cluster{false};  // sixteen blocks, not eight
  std::atomic<int> cluster_policy{0};
  std::atomic<bool> loaded{false};
  // Of the library's kernel that it is in its context.
  std::atomic<CUkernel> kernel_handle{nullptr};

 private:
  Module& module_;
  Context& context_;
  const std::shared_ptr<LoadedProgram> program_;
  Kernel& kernel_;
};

class Module {
 public:
  Module(Context& context, std::shared_ptr<LoadedProgram> program);
  ~Module();

  Context& context() const { return context_; }
  const Program& program() const { return *program_->program; }
  CUmodule handle() { return reinterpret_cast<CUmodule>(this); }
  // nullptr: no such kernel. The function is registered and lives as long as the module.
  std::shared_ptr<Function> FindFunction(const std::string& name);
  const GlobalInfo* FindGlobal(const std::string& name) const;
  // What cuModuleGetGlobal and its like answer.
  CUresult GetGlobal(const char* name, CUdeviceptr* address, size_t* bytes) const;

 private:
  Context& context_;
  const std::shared_ptr<LoadedProgram> program_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Function>> functions_;
};

class Library;

// A CUkernel: a name in a library, a function in each context.
class LibraryKernel {
 public:
  LibraryKernel(Library& library, std::string name) : library_(library), name_(std::move(name)) {}
  Library& library() const { return library_; }
  const std::string& name() const { return name_; }
  CUkernel handle() { return reinterpret_cast<CUkernel>(this); }

  // Set with cuKernelSetAttribute before the kernel exists in a context; -1 = not set.
  std::atomic<int> max_dynamic_shared{-1};
  std::atomic<int> carveout{-1};

 private:
  Library& library_;
  const std::string name_;
};

class Library {
 public:
  explicit Library(std::string ptx);
  ~Library();

  CUlibrary handle() { return reinterpret_cast<CUlibrary>(this); }
  // The library's module in `context`, loaded at first need.
  CUresult ModuleIn(Context& context, std::shared_ptr<Module>* module);
  CUresult FindKernel(Context& context, const std::string& name,
                      std::shared_ptr<LibraryKernel>* kernel);
  CUresult KernelNames(Context& context, std::vector<std::string>* names);
  void Forget(const Context* context);
  std::vector<std::shared_ptr<LibraryKernel>> TakeKernels();
  std::vector<std::shared_ptr<Module>> TakeModules();

 private:
  const std::string ptx_;
  std::mutex mutex_;
  std::map<const Context*, std::shared_ptr<Module>> modules_;
  std::map<std::string, std::shared_ptr<LibraryKernel>> kernels_;
};

Registry<LibraryKernel>& LibraryKernels();
void ForgetLibraries(const Context* context);

// The function behind a CUfunction, or behind a CUkernel passed as one, in `context`.
CUresult ResolveFunction(Context& context, const void* handle, std::shared_ptr<Function>* function);

}  // namespace farcall::cpu_device
