// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/worker_cgroups.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace farcall::server {

namespace {

// Each worker has some twenty threads; a driver's count on top.
constexpr char kMaxPids[] = "4096";
constexpr uint32_t kUsualWeight = 100;  // the kernel's own
constexpr char kControllers[] = "+memory +pids +cpu";

Status Write(const std::string& path, const std::string& text) {
  int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_TRUNC);
  bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int error = errno;
  if (file >= 0) close(file);
  return written ? Status()
                 : Status(Code::kUnavailable, "cgroup: " + path + ": " + strerror(error));
}

Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return {};
  return {Code::kUnavailable, "cgroup: " + path + ": " + strerror(errno)};
}

// Where version 2 is mounted; empty: nowhere.
std::string Mount() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, path, kind;
    words >> device >> path >> kind;
    if (kind == "cgroup2") return path;
  }
  return "";
}

// This process's, as the kernel names it.
std::string Own() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  return "/";
}

bool HasControllers(const std::string& path, std::string* lacking) {
  std::ifstream file(path + "/cgroup.controllers");
  std::string all, word;
  while (file >> word) all += " " + word + " ";
  for (const char* name : {"memory", "pids", "cpu"}) {
    if (all.find(std::string(1, ' ').append(name).append(1, ' ')) == std::string::npos) {
      *lacking = name;
      return false;
    }
  }
  return true;
}

std::string FolderIn(const std::string& mount, const std::string& own) {
  return own == "/" ? mount : mount + own;
}

bool Lists(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

// Version 1: where the controller is mounted and this process is in it; empty: nowhere.
std::string FirstFolder(const std::string& controller) {
  std::string mount, own;
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; mount.empty() && std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, path, kind, options;
    words >> device >> path >> kind >> options;
    if (kind == "cgroup" && Lists(options, controller)) mount = path;
  }
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second != std::string::npos &&
        Lists(line.substr(first + 1, second - first - 1), controller))
      own = line.substr(second + 1);
  }
  std::string folder = FolderIn(mount, own);
  return mount.empty() || own.empty() || access(folder.c_str(), W_OK) != 0 ? "" : folder;
}

std::vector<std::string> FirstFolders() {
  std::vector<std::string> folders;
  for (const char* controller : {"memory", "pids", "cpu"}) {
    folders.push_back(FirstFolder(controller));
    if (folders.back().empty()) return {};
  }
  if (std::string freezer = FirstFolder("freezer"); !freezer.empty())
    folders.push_back(std::move(freezer));
  return folders;
}

constexpr char kWorkersFolder[] = "farcall-workers-";  // and the server's pid

// A server that was killed cannot have removed its folders.
void RemoveThoseOfTheDead(const std::string& parent) {
  namespace fs = std::filesystem;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, failed)) {
    std::string name = entry.path().filename();
    if (name.rfind(kWorkersFolder, 0) != 0) continue;
    int pid = std::atoi(name.c_str() + sizeof(kWorkersFolder) - 1);
    if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH) continue;
    for (const fs::directory_entry& group : fs::directory_iterator(entry.path(), failed))
      if (group.is_directory(failed)) EndCgroup({group.path().string()});
    rmdir(entry.path().c_str());
  }
}

void KillEach(const std::string& folder) {
  std::ifstream processes(folder + "/cgroup.procs");
  for (pid_t pid = 0; processes >> pid;)
    if (pid > 1 && pid != getpid())  // 0: of another namespace
      kill(pid, SIGKILL);
}

// By the kernel at once; by an older one, while the group is frozen, so that none of it can make
// another meanwhile. What has no freezer is killed one by one, and its caller comes again.
void KillAll(const std::string& folder) {
  struct Freezer {
    const char* file;
    const char* freeze;
    const char* thaw;
  };
  if (Write(folder + "/cgroup.kill", "1").ok()) return;
  for (const Freezer& freezer :
       {Freezer{"/cgroup.freeze", "1", "0"}, Freezer{"/freezer.state", "FROZEN", "THAWED"}}) {
    if (Write(folder + freezer.file, freezer.freeze).ok()) {
      KillEach(folder);
      (void)Write(folder + freezer.file, freezer.thaw);
      return;
    }
  }
  KillEach(folder);
}

// A file of a group, by which of its folders it lies in.
struct Setting {
  size_t folder;
  const char* name;
  std::string value;
};

std::vector<Setting> SettingsOf(bool is_first, uint64_t memory_bytes, uint32_t weight) {
  constexpr uint32_t kUsualShares = 1024;  // version 1's, for a weight of 100
  if (is_first) {
    return {{0, "memory.limit_in_bytes", std::to_string(memory_bytes)},
            {1, "pids.max", kMaxPids},
            {2, "cpu.shares", std::to_string(std::max(weight * kUsualShares / kUsualWeight, 2u))}};
  }
  return {{0, "memory.max", std::to_string(memory_bytes)},
          {0, "pids.max", kMaxPids},
          {0, "cpu.weight", std::to_string(weight)}};
}

}  // namespace

Status WorkerCgroups::Open() {
  std::string mount = Mount(), lacking;
  bool has_second = !mount.empty() && HasControllers(FolderIn(mount, Own()), &lacking);
  if (!has_second) {
    if (std::vector<std::string> folders = FirstFolders(); !folders.empty())
      return OpenFirst(folders);
  }
  if (mount.empty())
    return {Code::kUnavailable, "cgroup: version 2 is not mounted on this machine"};
  return OpenAt(mount, Own());
}

// Nothing has to be moved or passed on: version 1's folders may have processes and children both.
Status WorkerCgroups::OpenFirst(const std::vector<std::string>& own_folders) {
  for (const std::string& own : own_folders) {
    RemoveThoseOfTheDead(own);
    std::string folder = own + "/" + kWorkersFolder + std::to_string(getpid());
    FARCALL_TRY(MakeFolder(folder));
    folders_.push_back(folder);
  }
  return {};
}

Status WorkerCgroups::OpenAt(const std::string& mount, const std::string& own) {
  std::string parent = FolderIn(mount, own);
  std::string lacking;
  if (!HasControllers(parent, &lacking)) {
    return {Code::kUnavailable, "cgroup: " + parent + " has no controller '" + lacking +
                                    "': it has to be delegated to the server"};
  }
  const std::string pid = std::to_string(getpid());
  if (own != "/") {
    // Whoever has children with controllers has no processes of its own.
    own_folder_ = parent + "/farcall-server-" + pid;
    FARCALL_TRY(MakeFolder(own_folder_));
    before_ = parent;
    FARCALL_TRY(Write(own_folder_ + "/cgroup.procs", pid));
  }
  Status passed = Write(parent + "/cgroup.subtree_control", kControllers);
  if (!passed.ok()) return {passed.code(), passed.message() + " (are other processes in it?)"};
  RemoveThoseOfTheDead(parent);
  std::string folder = parent + "/" + kWorkersFolder + pid;
  FARCALL_TRY(MakeFolder(folder));
  folders_ = {folder};
  return Write(folder + "/cgroup.subtree_control", kControllers);
}

WorkerCgroups::~WorkerCgroups() {
  for (const auto& [vgpu, group] : groups_) EndCgroup(group.paths);
  for (const std::string& folder : folders_) rmdir(folder.c_str());
  if (!own_folder_.empty()) {
    (void)Write(before_ + "/cgroup.procs", std::to_string(getpid()));
    rmdir(own_folder_.c_str());
  }
}

Status WorkerCgroups::Add(const std::string& vgpu, pid_t worker, uint32_t share_milli) {
  if (folders_.empty()) return {};
  Group& group = groups_[vgpu];
  Status added;
  if (group.workers == 0) {
    group.paths.clear();
    std::string name = "/vgpu-" + std::to_string(++made_);
    for (const std::string& folder : folders_) {
      group.paths.push_back(folder + name);
      if (added.ok()) added = MakeFolder(folder + name);
    }
    uint32_t weight = share_milli == 0 ? kUsualWeight : std::max<uint32_t>(share_milli, 1);
    for (const Setting& setting : SettingsOf(folders_.size() > 1, memory_bytes_, weight))
      if (added.ok())
        added = Write(group.paths[setting.folder] + "/" + setting.name, setting.value);
  }
  ++group.workers;
  for (const std::string& path : group.paths)
    if (added.ok()) added = Write(path + "/cgroup.procs", std::to_string(worker));
  return added;
}

std::vector<std::string> WorkerCgroups::Drop(const std::string& vgpu) {
  auto found = groups_.find(vgpu);
  if (found == groups_.end() || --found->second.workers != 0) return {};
  std::vector<std::string> paths = std::move(found->second.paths);
  groups_.erase(found);
  return paths;
}

bool EndCgroup(const std::vector<std::string>& folders) {
  bool is_gone = true;
  for (const std::string& folder : folders) {
    if (rmdir(folder.c_str()) == 0 || errno == ENOENT) continue;
    KillAll(folder);
    is_gone = rmdir(folder.c_str()) == 0 && is_gone;
  }
  return is_gone;
}

}  // namespace farcall::server
