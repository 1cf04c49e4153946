// SPDX-License-Identifier: Apache-2.0
#include "server/worker_cgroups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace farcall::server {

namespace {

// Each worker has some twenty threads; a driver's count on top.
constexpr char kMostThreads[] = "4096";
constexpr uint32_t kUsualWeight = 100;  // the kernel's own
constexpr char kControllers[] = "+memory +pids +cpu";

Status Write(const std::string& path, const std::string& text) {
  int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_TRUNC);
  bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int error = errno;
  if (file >= 0) {
    close(file);
  }
  return written ? Status()
                 : Status(Code::kUnavailable, "cgroup: " + path + ": " + strerror(error));
}

Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) {
    return {};
  }
  return {Code::kUnavailable, "cgroup: " + path + ": " + strerror(errno)};
}

// Where version 2 is mounted; empty: nowhere.
std::string Mount() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, path, kind;
    words >> device >> path >> kind;
    if (kind == "cgroup2") {
      return path;
    }
  }
  return "";
}

// This process's, as the kernel names it.
std::string Own() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) == 0) {
      return line.substr(3);
    }
  }
  return "/";
}

bool HasControllers(const std::string& path, std::string* lacking) {
  std::ifstream file(path + "/cgroup.controllers");
  std::string all, word;
  while (file >> word) {
    all += " " + word + " ";
  }
  for (const char* name : {"memory", "pids", "cpu"}) {
    if (all.find(" " + std::string(name) + " ") == std::string::npos) {
      *lacking = name;
      return false;
    }
  }
  return true;
}

}  // namespace

Status WorkerCgroups::Open() {
  std::string mount = Mount();
  if (mount.empty()) {
    return {Code::kUnavailable, "cgroup: version 2 is not mounted on this machine"};
  }
  return OpenAt(mount, Own());
}

Status WorkerCgroups::OpenAt(const std::string& mount, const std::string& own) {
  std::string parent = own == "/" ? mount : mount + own;
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
  if (!passed.ok()) {
    return {passed.code(), passed.message() + " (are other processes in it?)"};
  }
  std::string folder = parent + "/farcall-workers-" + pid;
  FARCALL_TRY(MakeFolder(folder));
  folder_ = folder;
  return Write(folder_ + "/cgroup.subtree_control", kControllers);
}

WorkerCgroups::~WorkerCgroups() {
  for (const auto& [vgpu, group] : groups_) {
    rmdir(group.path.c_str());
  }
  if (!folder_.empty()) {
    rmdir(folder_.c_str());
  }
  if (!own_folder_.empty()) {
    (void)Write(before_ + "/cgroup.procs", std::to_string(getpid()));
    rmdir(own_folder_.c_str());
  }
}

Status WorkerCgroups::Add(const std::string& vgpu, pid_t worker, uint32_t share_milli) {
  if (folder_.empty()) {
    return {};
  }
  Group& group = groups_[vgpu];
  Status added;
  if (group.workers == 0) {
    group.path = folder_ + "/vgpu-" + std::to_string(++made_);
    uint32_t weight = share_milli == 0 ? kUsualWeight : std::max<uint32_t>(share_milli, 1);
    added = MakeFolder(group.path);
    for (const auto& [name, value] : {std::pair("memory.max", std::to_string(memory_bytes_)),
                                      std::pair("pids.max", std::string(kMostThreads)),
                                      std::pair("cpu.weight", std::to_string(weight))}) {
      if (added.ok()) {
        added = Write(group.path + "/" + name, value);
      }
    }
  }
  ++group.workers;
  if (added.ok()) {
    added = Write(group.path + "/cgroup.procs", std::to_string(worker));
  }
  return added;
}

void WorkerCgroups::Drop(const std::string& vgpu) {
  auto found = groups_.find(vgpu);
  if (found == groups_.end() || --found->second.workers != 0) {
    return;
  }
  rmdir(found->second.path.c_str());
  groups_.erase(found);
}

}  // namespace farcall::server
