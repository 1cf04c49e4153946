// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/find_compiler.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace farcall::cpu_device {
namespace {

// libfarcall_ptxjit.so lies beside the library this code is in.
std::string CompilerPath() {
  if (const char* path = getenv("FARCALL_PTXJIT")) return path;
  Dl_info info = {};
  std::string path = "libfarcall_ptxjit.so";
  if (dladdr(reinterpret_cast<void*>(&CompilerPath), &info) && info.dli_fname) {
    std::string own = info.dli_fname;
    size_t slash = own.rfind('/');
    if (slash != std::string::npos) path = own.substr(0, slash + 1) + path;
  }
  return path;
}

}  // namespace

jit::CompileFunction FindCompiler(std::string* error) {
  static std::mutex* mutex = new std::mutex;
  static jit::CompileFunction compiler = nullptr;
  std::lock_guard lock(*mutex);
  if (compiler) return compiler;
  std::string path = CompilerPath();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
#ifdef FARCALL_PTXJIT_BUILD_PATH
  if (!library) library = dlopen(FARCALL_PTXJIT_BUILD_PATH, RTLD_NOW | RTLD_LOCAL);
#endif
  if (!library) {
    const char* reason = dlerror();
    *error = "cannot load the PTX compiler " + path + ": " + (reason ? reason : "unknown");
    return nullptr;
  }
  compiler = reinterpret_cast<jit::CompileFunction>(dlsym(library, jit::kCompileSymbol));
  if (!compiler) *error = path + " is not this version's PTX compiler";
  return compiler;
}

}  // namespace farcall::cpu_device
