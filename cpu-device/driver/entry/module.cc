// SPDX-License-Identifier: Apache-2.0
// Modules and the linker.
#include "cpu-device/driver/state/module.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/kind.h"
#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/code/image_source.h"
#include "cpu-device/driver/code/jit_options.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device {

bool ReadFile(const char* path, std::string* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  return !file.bad();
}

CUresult CodeOf(const void* image, std::string* code, const JitOptions& jit) {
  const Profile& profile = TheDriver().profile;
  std::string error;
  const CUresult result = ExtractImage(image, static_cast<uint32_t>(profile.cc()),
                                       kDeviceKind.Taste(profile), code, &error);
  if (result != CUDA_SUCCESS) {
    Log(LogLevel::kError, "kernel image: %s", error.c_str());
    jit.ReportError(error);
    return result;
  }
  // Containers stay lazy: NVIDIA's libraries hold thousands of kernels and use a few.
  return cuda_abi::ViewTrustedImage(image).form == cuda_abi::ImageForm::kPtx ? CheckText(*code, jit)
                                                                             : CUDA_SUCCESS;
}

CUresult CheckText(const std::string& ptx, const JitOptions& jit) {
  if (!kDeviceKind.executes) return CUDA_SUCCESS;
  ptx::Module module;
  ptx::ParseResult parsed = ptx::Parse(ptx, &module);
  if (parsed.ok()) parsed = module.EnsureAll();
  if (parsed.ok()) return CUDA_SUCCESS;
  Log(LogLevel::kError, "PTX: %s", parsed.message.c_str());
  jit.ReportError(parsed.message);
  return CUDA_ERROR_INVALID_PTX;
}

namespace {

CUresult LoadImage(CUmodule* out, const void* image, const JitOptions& jit) {
  const JitClock clock(jit);
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string ptx, error;
  if (const CUresult result = CodeOf(image, &ptx, jit)) return result;
  std::shared_ptr<LoadedProgram> program;
  if (const CUresult result = LoadProgram(*context, std::move(ptx), &program, &error)) {
    jit.ReportError(error);
    return result;
  }
  auto module = std::make_shared<Module>(*context, std::move(program));
  *out = module->handle();
  TheDriver().modules.Add(std::move(module));
  return CUDA_SUCCESS;
}

CUresult Enter(CUmodule handle, std::shared_ptr<Module>* module) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *module = TheDriver().modules.Find(handle);
  return *module == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return LoadImage(module, image, {});
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return LoadImage(module, image, {});
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  JitOptions jit;
  if (!jit.Read(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
  return LoadImage(module, image, jit);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  std::string bytes;
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ReadFile(path, &bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
  return LoadImage(module, bytes.c_str(), {});
}

CUresult cuModuleUnload(CUmodule handle) {
  std::shared_ptr<Module> module;
  if (const CUresult result = Enter(handle, &module)) return result;
  TheDriver().modules.Take(handle);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  std::shared_ptr<Module> module;
  if (const CUresult result = Enter(handle, &module)) return result;
  if (out == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Function> function = module->FindFunction(name);
  if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = function->handle();
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  std::shared_ptr<Module> module;
  if (const CUresult result = Enter(handle, &module)) return result;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->program().KernelNames().size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int count, CUmodule handle) {
  std::shared_ptr<Module> module;
  if (const CUresult result = Enter(handle, &module)) return result;
  if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<std::string>& names = module->program().KernelNames();
  for (unsigned i = 0; i < count && i < names.size(); ++i) {
    const auto function = module->FindFunction(names[i]);
    functions[i] = function == nullptr ? nullptr : function->handle();
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                              const char* name) {
  std::shared_ptr<Module> module;
  if (const CUresult result = Enter(handle, &module)) return result;
  return module->GetGlobal(name, address, bytes);
}

}  // extern "C"
