// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/worker_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "proto/handshake/fabric_transport.h"
#include "server/confine/landlock.h"
#include "server/state/objects/image_store.h"
#include "server/worker/sandbox/shared_folders.h"
#include "server/worker/sandbox/worker_setup.h"
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

void AddParent(const fs::path& file, std::vector<std::string>* files) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (!error) files->push_back(real.parent_path().string());
}

std::vector<std::string> DeviceNodes() {
  std::vector<std::string> nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error))
    if (entry.path().filename().string().rfind("nvidia", 0) == 0)
      nodes.push_back(entry.path().string());
  return nodes;
}

// A worker that is confined already, and is narrowed to its tenant, can list /dev no more.
void AllowDevices(LandlockRules* rules) {
  static const std::vector<std::string> nodes = DeviceNodes();
  for (const std::string& node : nodes) rules->Allow(node, Access::kDevice);
}

// RDMA's device nodes, and the list of libibverbs' drivers.
void AllowCards(LandlockRules* rules) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/infiniband", error))
    rules->Allow(entry.path().string(), Access::kDevice);
  rules->Allow("/etc/libibverbs.d", Access::kRead);
}

void AllowWritable(LandlockRules* rules, const std::string& folder) {
  std::error_code error;
  if (!folder.empty()) {
    fs::create_directories(folder, error);
    rules->Allow(folder, Access::kReadWrite);
  }
}

// `variable` names the folder, which is a descriptor; -1: none does. Those of other devices name
// none.
void ChooseKernelCaches(int folder, const std::string& variable) {
  for (const char* name : kCacheVariables) {
    const bool has_folder = folder >= 0 && variable == name;
    setenv(name, has_folder ? ("/proc/self/fd/" + std::to_string(folder)).c_str() : "", 1);
  }
  // Whoever of the tenant's workers left a kernel there: none else can.
  setenv("FARCALL_CPU_CACHE_SHARED", "1", 1);
}

// What any program of ours reads to begin, to load libraries and to know the machine.
std::vector<std::string> ProgramFiles() {
  std::vector<std::string> files(std::begin(kSystemFiles), std::end(kSystemFiles));
  const std::vector<std::string> loader = LoaderFolders();
  files.insert(files.end(), loader.begin(), loader.end());
  // Our own tree: bin/farcall, lib/farcall.
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    files.push_back((self.parent_path().parent_path() / "lib").string());
    files.push_back((self.parent_path().parent_path() / "libexec").string());
    files.push_back(self.string());
  }
  return files;
}

void AllowNodes(LandlockRules* rules) {
  for (const char* node : kNodes) rules->Allow(node, Access::kDevice);
}

}  // namespace

void AllowProgram(LandlockRules* rules) {
  for (const std::string& file : ProgramFiles()) rules->Allow(file, Access::kRead);
  AllowNodes(rules);
}

void ForgetKernelCaches() {
  for (const char* name : kCacheVariables) setenv(name, "", 1);
}

std::vector<std::string> ReadableFiles(const std::string& device_path) {
  std::vector<std::string> files = ProgramFiles();
  for (const auto& folders : {LibraryFolders(), ToolkitFolders()})
    files.insert(files.end(), folders.begin(), folders.end());
  // lib/python3.x/site-packages/nvidia/<name>: pip's records stand beside nvidia, and a search
  // lists lib.
  for (const fs::path folder : PackageFolders()) {
    const fs::path site = folder.parent_path().parent_path();
    files.push_back(site.parent_path().parent_path().string());
  }
  if (device_path.find('/') != std::string::npos) AddParent(device_path, &files);
  for (const char* name : {"FARCALL_PTXJIT", "FARCALL_CPU_PROFILE", "FARCALL_DRY_PROFILE"})
    if (const std::string path = Variable(name); path.find('/') != std::string::npos)
      AddParent(path, &files);
  // UCX's folder is lib beside what it was packed with; or its library is named.
  if (const std::string path = Variable("FARCALL_UCX_PATH"); !path.empty()) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!error) {
      const fs::path folder = fs::is_directory(real, error) ? real : real.parent_path();
      files.push_back(folder.string());
      AddParent(folder, &files);
    }
  }
  if (const std::string path = Variable("FARCALL_IBVERBS_PATH"); !path.empty())
    AddParent(path, &files);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

std::vector<int> OpenAllCaches(const std::string& kernel_variable) {
  std::vector<std::string> folders = {ImageBaseDirectory()};
  if (const std::string chosen = Variable(kernel_variable.c_str()); !chosen.empty())
    folders.push_back(chosen + "/tenants");
  std::vector<int> caches;
  for (const std::string& folder : folders)
    if (const int fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); fd >= 0)
      caches.push_back(fd);
  return caches;
}

void PromiseKernelCache(const std::string& kernel_variable) {
  if (const int none = open("/dev/null", O_RDONLY | O_CLOEXEC); none >= 0) {
    dup3(none, kKernelsDescriptor, O_CLOEXEC);
    close(none);
  }
  ChooseKernelCaches(kKernelsDescriptor, kernel_variable);
}

WorkerFiles TakeFiles(const WorkerSetup& setup, std::span<const int> folders) {
  WorkerFiles files;
  files.readable = setup.readable;
  const size_t images = setup.has_images ? 1 : 0;
  if (setup.has_images && !folders.empty()) files.images = folders[0];
  if (!setup.kernel_variable.empty() && images < folders.size()) {
    // At a number that a worker which was started before knows already.
    files.kernels = dup3(folders[images], kKernelsDescriptor, O_CLOEXEC);
    close(folders[images]);
  } else {
    close(kKernelsDescriptor);
  }
  ChooseKernelCaches(files.kernels, setup.kernel_variable);
  files.shared_folder = Variable(kSharedFolderVariable);
  files.is_mps = !Variable("CUDA_MPS_PIPE_DIRECTORY").empty();
  files.trusts_tenants = setup.trust_tenants;
  files.uses_ucx = UsesFabric(kUcxTransport, setup.welcome);
  files.uses_verbs = UsesFabric(kVerbsTransport, setup.welcome);
  return files;
}

Status ConfineFiles(const WorkerFiles& files) {
  // UCX listens and connects at ports that nobody knows before.
  LandlockRules rules(files.uses_ucx ? LandlockRules::Isolation::kProcesses
                                     : LandlockRules::Isolation::kAll);
  for (const std::string& file : files.readable) rules.Allow(file, Access::kRead);
  AllowNodes(&rules);
  AllowDevices(&rules);
  // Held open for good: a rule is of the folder as the kernel has it in memory, and what nobody
  // holds may be made anew.
  static const int self = open("/proc/self", O_PATH | O_CLOEXEC | O_DIRECTORY);
  (void)self;
  rules.Allow("/proc/self", Access::kReadWrite);  // names of threads are written there
  if (files.uses_ucx || files.uses_verbs) AllowCards(&rules);
  if (files.uses_ucx)
    rules.Allow("/proc/sys/net/core", Access::kRead);  // how long a queue of connections may be
  for (int cache : files.caches) rules.Allow(cache, Access::kReadWrite);
  rules.Allow(files.images, Access::kRead);
  rules.Allow(files.kernels, Access::kReadWrite);
  // Events that the CPU device shares between processes.
  rules.Allow(files.shared_folder, Access::kFiles);
  if (files.is_mps || files.trusts_tenants)
    rules.Allow("/dev/shm", Access::kReadWrite);  // a client and its daemon meet there
  if (files.is_mps) {
    AllowWritable(&rules, Variable("CUDA_MPS_PIPE_DIRECTORY"));
    AllowWritable(&rules, Variable("CUDA_MPS_LOG_DIRECTORY"));
  }
  return rules.Enforce();
}

}  // namespace farcall::server
