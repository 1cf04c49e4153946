// SPDX-License-Identifier: Apache-2.0
#include "server/worker/worker_files.h"

#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "server/confine/landlock.h"
#include "toolkit/library_folders.h"

namespace farcall::server {

namespace fs = std::filesystem;
using Access = LandlockRules::Access;

namespace {

// The device's own: NVIDIA's driver's, and the CPU device's.
constexpr const char* kCacheVariables[] = {"CUDA_CACHE_PATH", "FARCALL_CPU_CACHE"};

// What any program reads to begin, to find libraries and to know the machine.
constexpr const char* kSystemFiles[] = {"/lib",
                                        "/lib64",
                                        "/usr/lib",
                                        "/usr/lib64",
                                        "/usr/local/lib",
                                        "/usr/share/nvidia",
                                        "/etc/ld.so.cache",
                                        "/etc/ld.so.preload",
                                        "/etc/localtime",
                                        "/etc/nvidia",
                                        "/etc/alternatives",
                                        "/proc/driver",
                                        "/proc/devices",
                                        "/proc/meminfo",
                                        "/proc/cpuinfo",
                                        "/proc/stat",
                                        "/proc/version",
                                        "/proc/modules",
                                        "/proc/filesystems",
                                        "/proc/uptime",
                                        "/proc/sys/vm",
                                        "/proc/sys/kernel",
                                        "/sys"};
constexpr const char* kNodes[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                  "/dev/urandom"};

std::string Variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

void AllowParent(LandlockRules* rules, const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (!error) {
    rules->Allow(real.parent_path().string(), Access::kRead);
  }
}

void AllowLibraries(LandlockRules* rules, const std::string& device_path) {
  for (const auto& folders : {LibraryFolders(), ToolkitFolders()}) {
    for (const std::string& folder : folders) {
      rules->Allow(folder, Access::kRead);
    }
  }
  // nvidia/<name> in site-packages, with pip's records beside them.
  for (const fs::path folder : PackageFolders()) {
    rules->Allow(folder.parent_path().parent_path().string(), Access::kRead);
  }
  if (device_path.find('/') != std::string::npos) {
    AllowParent(rules, device_path);
  }
  for (const char* name : {"FARCALL_PTXJIT", "FARCALL_CPU_PROFILE", "FARCALL_DRY_PROFILE"}) {
    if (const std::string path = Variable(name); path.find('/') != std::string::npos) {
      AllowParent(rules, path);
    }
  }
}

void AllowDevices(LandlockRules* rules) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    if (entry.path().filename().string().rfind("nvidia", 0) == 0) {
      rules->Allow(entry.path().string(), Access::kDevice);
    }
  }
}

void AllowWritable(LandlockRules* rules, const std::string& folder) {
  std::error_code error;
  if (!folder.empty()) {
    fs::create_directories(folder, error);
    rules->Allow(folder, Access::kReadWrite);
  }
}

}  // namespace

void AllowProgram(LandlockRules* rules) {
  for (const char* file : kSystemFiles) {
    rules->Allow(file, Access::kRead);
  }
  for (const std::string& folder : LoaderFolders()) {
    rules->Allow(folder, Access::kRead);
  }
  // Our own tree: bin/farcall, lib/farcall.
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    rules->Allow((self.parent_path().parent_path() / "lib").string(), Access::kRead);
    rules->Allow((self.parent_path().parent_path() / "libexec").string(), Access::kRead);
    rules->Allow(self.string(), Access::kRead);
  }
  for (const char* node : kNodes) {
    rules->Allow(node, Access::kDevice);
  }
}

void ForgetKernelCaches() {
  for (const char* name : kCacheVariables) {
    setenv(name, "", 1);
  }
}

void ChooseKernelCaches(const std::string& tenant_folder) {
  const std::string tenant = fs::path(tenant_folder).filename().string();
  for (const char* name : kCacheVariables) {
    const char* chosen = std::getenv(name);
    if (chosen != nullptr && *chosen == 0) {
      continue;  // none is wanted
    }
    const fs::path folder = chosen != nullptr
                                ? fs::path(chosen) / tenant
                                : fs::path(tenant_folder) / (std::string("of-") + name);
    if (!tenant_folder.empty()) {
      setenv(name, folder.c_str(), 1);
    } else if (chosen == nullptr) {
      setenv(name, "", 1);
    }
  }
}

Status ConfineFiles(const WorkerFiles& files) {
  LandlockRules rules(LandlockRules::Isolation::kAll);
  AllowProgram(&rules);
  AllowLibraries(&rules, files.device_path);
  AllowDevices(&rules);
  // Held open for good: a rule is of the folder as the kernel has it in memory, and what nobody
  // holds may be made anew.
  static const int self = open("/proc/self", O_PATH | O_CLOEXEC | O_DIRECTORY);
  (void)self;
  rules.Allow("/proc/self", Access::kReadWrite);  // names of threads are written there
  AllowWritable(&rules, files.tenant_folder);
  for (const char* name : kCacheVariables) {
    AllowWritable(&rules, Variable(name));
  }
  // Events that the CPU device shares between processes.
  rules.Allow(files.shared_folder, Access::kFiles);
  if (files.is_mps || files.trusts_tenants) {
    rules.Allow("/dev/shm", Access::kReadWrite);  // a client and its daemon meet there
  }
  if (files.is_mps) {
    AllowWritable(&rules, Variable("CUDA_MPS_PIPE_DIRECTORY"));
    AllowWritable(&rules, Variable("CUDA_MPS_LOG_DIRECTORY"));
  }
  return rules.Enforce();
}

}  // namespace farcall::server
