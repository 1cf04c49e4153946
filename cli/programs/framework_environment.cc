// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/framework_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <sstream>

#include "cli/programs/client_environment.h"
#include "cli/programs/elf_symbols.h"

namespace farcall::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kNoTiming = "--xla_gpu_autotune_level=0";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string FolderOf(std::string path) {
  path.resize(std::min(path.find_last_of('/'), path.size()));
  return path;
}

// "" if the file is not there.
std::string Helper(const std::string& name) {
  std::string path = FolderOf(FolderOf(OwnPath())) + "/libexec/farcall/" + name;
  return access(path.c_str(), R_OK) == 0 ? path : "";
}

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream folders(Variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = folder + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return name;
}

// A sanitizer's runtime refuses to start behind a preloaded library.
bool IsSanitized(const std::string& program) {
  Result<std::vector<std::string>> names = UndefinedSymbols(FindProgram(program));
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name == "__asan_init" || name == "__tsan_init" || name == "__msan_init";
  });
}

// XLA's switches, each unless the user has set it.
std::string XlaFlags(std::initializer_list<const char*> wanted) {
  std::string flags = Variable("XLA_FLAGS");
  for (const char* flag : wanted) {
    std::string name(flag, std::strchr(flag, '='));
    if (flags.find(name) != std::string::npos) continue;
    flags += (flags.empty() ? "" : " ") + std::string(flag);
  }
  return flags;
}

// <prefix>/lib/python3.N/site-packages/nvidia/*/lib of the interpreter or script that is started.
std::vector<std::string> WheelLibraryFolders(const std::string& program) {
  std::vector<std::string> folders;
  std::error_code ignored;
  // Not what a link points to: a virtual environment's python is a link.
  const fs::path prefix = fs::absolute(FindProgram(program), ignored).parent_path().parent_path();
  for (const fs::directory_entry& python : fs::directory_iterator(prefix / "lib", ignored)) {
    if (python.path().filename().string().rfind("python3", 0) != 0) continue;
    const fs::path nvidia = python.path() / "site-packages/nvidia";
    for (const fs::directory_entry& package : fs::directory_iterator(nvidia, ignored)) {
      const std::string folder = package.path() / "lib";
      // The loader would take such a path for two.
      if (fs::is_directory(folder, ignored) && folder.find_first_of(":;") == std::string::npos)
        folders.push_back(folder);
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

Variables PtxOnlyEnvironment(bool thin) {
  Variables variables;
  auto add = [&](const char* name, const std::string& value) {
    if (Variable(name).empty() && !value.empty()) variables.emplace_back(name, value);
  };
  std::string ptxas = Helper("farcall-ptxas");
  add("TRITON_PTXAS_PATH", ptxas);
  add("TRITON_PTXAS_BLACKWELL_PATH", ptxas);
  // XLA looks into the folder that JAX names before it looks along PATH.
  std::string folder = FolderOf(Helper("ptx-only/bin/ptxas"));
  if (!folder.empty()) variables.emplace_back("PATH", folder + ":" + Variable("PATH"));
  // Where JAX then finds libdevice as well, and the ptxas along PATH.
  const std::string data = thin ? CudaDataRoot() : "";
  add("CUDA_ROOT", data.empty() ? FolderOf(folder) : data);
  add("CUPY_COMPILE_WITH_PTX", "1");
  add("NVIDIA_TF32_OVERRIDE", "0");
  variables.emplace_back("XLA_FLAGS", XlaFlags({kNoTiming, "--xla_gpu_enable_triton_gemm=false"}));
  // The server's NVRTC makes PTX by itself; one that the client has is asked for it by ours.
  const std::string nvrtc = DriverLibraryFolder() + "/device/nvrtc";
  if (!thin && access(nvrtc.c_str(), R_OK) == 0) {
    const std::string before = Variable("LD_LIBRARY_PATH");
    variables.emplace_back("LD_LIBRARY_PATH", before.empty() ? nvrtc : nvrtc + ":" + before);
  }
  return variables;
}

Variables WheelEnvironment(const std::string& program, std::string before) {
  const std::vector<std::string> folders = WheelLibraryFolders(program);
  if (folders.empty()) return {};
  for (const std::string& folder : folders) before += (before.empty() ? "" : ":") + folder;
  return {{"LD_LIBRARY_PATH", before}};
}

Variables DryEnvironment() {
  return {{"XLA_FLAGS", XlaFlags({kNoTiming})}};
}

Variables DeviceNodeEnvironment(const std::string& program) {
  for (const char* node : {"/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"})
    if (access(node, F_OK) == 0) return {};
  std::string library = DriverLibraryFolder() + "/libfarcall-device-node.so";
  if (access(library.c_str(), R_OK) != 0 || IsSanitized(program)) return {};
  // The loader would take such a path for two.
  if (library.find_first_of(" :") != std::string::npos) return {};
  // Behind the user's own: a sanitizer's runtime, or an allocator, wants to be first.
  std::string before = Variable("LD_PRELOAD");
  return {{"LD_PRELOAD", before.empty() ? library : before + ":" + library}};
}

}  // namespace farcall::cli
