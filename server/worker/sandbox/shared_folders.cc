// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/shared_folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace farcall::server {

namespace {

constexpr char kPrefix[] = "farcall-shared-";
constexpr size_t kFilesAtOnce = 4096;
constexpr time_t kYoungSeconds = 10;  // its server may not have locked it yet

int OpenFolder(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

std::vector<std::string> NamesIn(const std::string& path, size_t most) {
  std::vector<std::string> names;
  const int folder = OpenFolder(path);
  DIR* listed = folder < 0 ? nullptr : fdopendir(folder);
  if (listed == nullptr) {
    if (folder >= 0) close(folder);
    return names;
  }
  while (const dirent* entry = names.size() < most ? readdir(listed) : nullptr) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(listed);
  return names;
}

void RemoveServers(const std::string& own) {
  for (const std::string& vgpu : NamesIn(own, kFilesAtOnce)) {
    while (!RemoveFolder(own + "/" + vgpu, kFilesAtOnce)) {
    }
  }
  rmdir(own.c_str());
}

}  // namespace

std::string SharedFolderParent() {
  const char* chosen = std::getenv(kSharedFolderVariable);
  return chosen == nullptr || *chosen == 0 ? "/dev/shm" : chosen;
}

bool RemoveFolder(const std::string& path, size_t most_files) {
  const int folder = OpenFolder(path);
  if (folder < 0) return true;
  const std::vector<std::string> names = NamesIn(path, most_files);
  size_t removed = 0;
  for (const std::string& name : names) removed += unlinkat(folder, name.c_str(), 0) == 0 ? 1 : 0;
  close(folder);
  if (names.size() == most_files && removed != 0) return false;
  rmdir(path.c_str());
  return true;
}

// A server that was killed cannot have removed its own. Which live shows by their locks, also
// across containers that share the place but not their processes' numbers.
void RemoveDeadServers(const std::string& parent, time_t youngest_seconds) {
  for (const std::string& name : NamesIn(parent, kFilesAtOnce)) {
    if (name.rfind(kPrefix, 0) != 0) continue;
    const std::string path = parent + "/" + name;
    const int folder = OpenFolder(path);
    struct stat status {};
    const bool is_ours = folder >= 0 && fstat(folder, &status) == 0 && status.st_uid == geteuid();
    if (is_ours && time(nullptr) - status.st_ctime >= youngest_seconds &&
        flock(folder, LOCK_EX | LOCK_NB) == 0)
      RemoveServers(path);
    if (folder >= 0) close(folder);
  }
}

SharedFolders::SharedFolders(const std::string& parent) {
  RemoveDeadServers(parent, kYoungSeconds);
  std::string path = parent + "/" + kPrefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return;
  lock_ = OpenFolder(path);
  // A worker's own user passes through; it can list nothing here.
  if (lock_ < 0 || flock(lock_, LOCK_EX | LOCK_NB) != 0 || fchmod(lock_, 0711) != 0) {
    rmdir(path.c_str());
    return;
  }
  own_ = path;
}

SharedFolders::~SharedFolders() {
  if (!own_.empty()) RemoveServers(own_);
  if (lock_ >= 0) close(lock_);
}

std::string SharedFolders::Add(const std::string& vgpu, std::optional<uid_t> user) {
  if (own_.empty()) return "";
  Folder& folder = folders_[vgpu];
  ++folder.workers;
  if (folder.workers > 1) return folder.path;
  std::string path = own_ + "/vgpu-" + std::to_string(++made_);
  if (mkdir(path.c_str(), 0700) != 0) return "";
  if (user && chown(path.c_str(), *user, *user) != 0) {
    rmdir(path.c_str());
    return "";
  }
  folder.path = path;
  return path;
}

void SharedFolders::Rename(const std::string& from, const std::string& vgpu) {
  if (auto held = folders_.extract(from); !held.empty()) {
    held.key() = vgpu;
    folders_.insert(std::move(held));
  }
}

std::string SharedFolders::Drop(const std::string& vgpu) {
  auto found = folders_.find(vgpu);
  if (found == folders_.end() || --found->second.workers != 0) return "";
  std::string path = std::move(found->second.path);
  folders_.erase(found);
  return path;
}

}  // namespace farcall::server
