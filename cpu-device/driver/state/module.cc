// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/module.h"

#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "cpu-device/driver/base/kind.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cuda-abi/image.h"

namespace farcall::cpu_device {
namespace {

// Libraries by address, so that a context's reset reaches them.
struct LibraryList {
  std::mutex mutex;
  std::set<Library*> libraries;
};

LibraryList& AllLibraries() {
  static auto* list = new LibraryList;
  return *list;
}

}  // namespace

Registry<LibraryKernel>& LibraryKernels() {
  static auto* kernels = new Registry<LibraryKernel>;
  return *kernels;
}

CUresult LoadProgram(Context& context, std::string ptx, std::shared_ptr<LoadedProgram>* loaded,
                     std::string* error) {
  StartExecutor();
  auto result = std::make_shared<LoadedProgram>(context);
  result->ptx = std::move(ptx);
  const bool is_elf = cuda_abi::ClassifyImage({reinterpret_cast<const uint8_t*>(result->ptx.data()),
                                               result->ptx.size()}) == cuda_abi::ImageForm::kElf;
  const ExecResult status = (is_elf ? kDeviceKind.load_machine_code : &Program::Load)(
      result->ptx, result->globals, &result->program);
  *error = status.message;
  if (!status.ok()) return ResultOf(status);
  for (const GlobalInfo& global : result->program->Globals()) {
    if (!global.managed) continue;
    TheDriver().ranges.Update(global.address,
                              [](Range& range) { range.is_managed_variable = true; });
  }
  *loaded = std::move(result);
  return CUDA_SUCCESS;
}

namespace {
// CUDA lets the first use of a kernel wait for the context's work, and NVIDIA's driver does; this
// device does where that is to be tried.
bool WaitsToLoad() {
  static const bool waits = [] {
    const char* text = std::getenv("FARCALL_CPU_LOADING");
    return text != nullptr && std::strcmp(text, "wait") == 0;
  }();
  return waits;
}
}  // namespace

CUresult Function::Load() {
  if (loaded.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  if (WaitsToLoad()) (void)context_.Synchronize();  // its errors are told where they are asked for
  const CUresult result = ResultOf(kernel_.Prepare());
  if (result == CUDA_SUCCESS) loaded.store(true, std::memory_order_release);
  return result;
}

Module::Module(Context& context, std::shared_ptr<LoadedProgram> program)
    : context_(context), program_(std::move(program)) {}

Module::~Module() {
  for (const auto& [name, function] : functions_) TheDriver().functions.Take(function.get());
}

std::shared_ptr<Function> Module::FindFunction(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto found = functions_.find(name);
  if (found != functions_.end()) return found->second;
  Kernel* kernel = program_->program->FindKernel(name);
  if (kernel == nullptr) return nullptr;
  auto function = std::make_shared<Function>(*this, context_, program_, *kernel);
  functions_.emplace(name, function);
  TheDriver().functions.Add(function);
  return function;
}

const GlobalInfo* Module::FindGlobal(const std::string& name) const {
  for (const GlobalInfo& global : program().Globals())
    if (global.name == name) return &global;
  return nullptr;
}

CUresult Module::GetGlobal(const char* name, CUdeviceptr* address, size_t* bytes) const {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const GlobalInfo* global = FindGlobal(name);
  if (global == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = global->address;
  if (bytes != nullptr) *bytes = global->size_bytes;
  return CUDA_SUCCESS;
}

Library::Library(std::string ptx) : ptx_(std::move(ptx)) {
  std::lock_guard lock(AllLibraries().mutex);
  AllLibraries().libraries.insert(this);
}

Library::~Library() {
  std::lock_guard lock(AllLibraries().mutex);
  AllLibraries().libraries.erase(this);
}

CUresult Library::ModuleIn(Context& context, std::shared_ptr<Module>* module) {
  std::lock_guard lock(mutex_);
  auto& slot = modules_[&context];
  if (slot == nullptr) {
    std::shared_ptr<LoadedProgram> program;
    std::string error;
    if (const CUresult result = LoadProgram(context, ptx_, &program, &error)) {
      modules_.erase(&context);
      return result;
    }
    slot = std::make_shared<Module>(context, std::move(program));
    TheDriver().modules.Add(slot);
  }
  *module = slot;
  return CUDA_SUCCESS;
}

CUresult Library::FindKernel(Context& context, const std::string& name,
                             std::shared_ptr<LibraryKernel>* kernel) {
  std::shared_ptr<Module> module;
  if (const CUresult result = ModuleIn(context, &module)) return result;
  if (module->FindFunction(name) == nullptr) return CUDA_ERROR_NOT_FOUND;
  std::lock_guard lock(mutex_);
  auto& slot = kernels_[name];
  if (slot == nullptr) {
    slot = std::make_shared<LibraryKernel>(*this, name);
    LibraryKernels().Add(slot);
  }
  *kernel = slot;
  return CUDA_SUCCESS;
}

CUresult Library::KernelNames(Context& context, std::vector<std::string>* names) {
  std::shared_ptr<Module> module;
  if (const CUresult result = ModuleIn(context, &module)) return result;
  *names = module->program().KernelNames();
  return CUDA_SUCCESS;
}

void Library::Forget(const Context* context) {
  std::shared_ptr<Module> gone;
  std::lock_guard lock(mutex_);
  const auto found = modules_.find(context);
  if (found == modules_.end()) return;
  gone = std::move(found->second);
  modules_.erase(found);
  TheDriver().modules.Take(gone.get());
}

std::vector<std::shared_ptr<LibraryKernel>> Library::TakeKernels() {
  std::vector<std::shared_ptr<LibraryKernel>> taken;
  std::lock_guard lock(mutex_);
  for (auto& [name, kernel] : kernels_) taken.push_back(std::move(kernel));
  kernels_.clear();
  return taken;
}

std::vector<std::shared_ptr<Module>> Library::TakeModules() {
  std::vector<std::shared_ptr<Module>> taken;
  std::lock_guard lock(mutex_);
  for (auto& [context, module] : modules_) taken.push_back(std::move(module));
  modules_.clear();
  return taken;
}

void ForgetLibraries(const Context* context) {
  std::lock_guard lock(AllLibraries().mutex);
  for (Library* library : AllLibraries().libraries) library->Forget(context);
}

CUresult ResolveFunction(Context& context, const void* handle,
                         std::shared_ptr<Function>* function) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *function = TheDriver().functions.Find(handle);
  if (*function != nullptr)
    return &(*function)->context() == &context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  const std::shared_ptr<LibraryKernel> kernel = LibraryKernels().Find(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Module> module;
  if (const CUresult result = kernel->library().ModuleIn(context, &module)) return result;
  *function = module->FindFunction(kernel->name());
  if (*function == nullptr) return CUDA_ERROR_NOT_FOUND;
  (*function)->kernel_handle = kernel->handle();
  // What was set on the kernel holds for its function in each context, unless the function has its
  // own.
  int unset = -1;
  if (kernel->max_dynamic_shared >= 0)
    (*function)->max_dynamic_shared.compare_exchange_strong(unset, kernel->max_dynamic_shared);
  return CUDA_SUCCESS;
}

}  // namespace farcall::cpu_device
