// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/images/image_sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace farcall::server {

namespace {

constexpr auto kPeriod = std::chrono::seconds(10);
constexpr int kMaxDepth = 8;           // an owner's folder holds one level of caches
constexpr size_t kMaxFiles = 1 << 20;  // more are met at the next sweep

struct File {
  timespec used{};
  uint64_t bytes = 0;
  std::string path;
};

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

Folder OpenFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* folder = fd < 0 ? nullptr : fdopendir(fd);
  if (fd >= 0 && folder == nullptr) close(fd);
  return {folder, closedir};
}

// base/tenant/of-<variable>/...: whoever has a way there is a worker of the tenant's. A link could
// be to a file from elsewhere.
void OpenToOthers(int folder, const char* name, int depth, const struct stat& status) {
  constexpr int kKernelDepth = 2;
  const auto wanted = [](const struct stat& of) -> mode_t {
    return S_ISDIR(of.st_mode) ? 0777 : S_ISREG(of.st_mode) && of.st_nlink == 1 ? 0666 : 0;
  };
  const mode_t mode = wanted(status);
  if (depth < kKernelDepth || (status.st_mode & mode) == mode) return;
  const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat same {};
  if (file >= 0 && fstat(file, &same) == 0 && wanted(same) == mode) fchmod(file, mode);
  if (file >= 0) close(file);
}

// Bytes as the disk has them: a sparse file claims more than it takes.
void AddFiles(const std::string& path, int depth, bool for_others, std::vector<File>* files) {
  Folder folder = OpenFolder(path);
  while (folder != nullptr && files->size() < kMaxFiles) {
    const dirent* entry = readdir(folder.get());
    if (entry == nullptr) return;
    struct stat status {};
    const std::string name = entry->d_name;
    if (name == "." || name == ".." ||
        fstatat(dirfd(folder.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (for_others) OpenToOthers(dirfd(folder.get()), entry->d_name, depth, status);
    const std::string inner = path + "/" + name;
    if (S_ISDIR(status.st_mode) && depth < kMaxDepth)
      AddFiles(inner, depth + 1, for_others, files);
    else if (!S_ISDIR(status.st_mode))
      files->push_back({status.st_mtim, uint64_t(status.st_blocks) * 512, inner});
  }
}

// Through the folder itself, so that no link on the way leads elsewhere.
bool Remove(const std::string& path) {
  const size_t slash = path.rfind('/');
  Folder folder = OpenFolder(path.substr(0, slash));
  return folder != nullptr && unlinkat(dirfd(folder.get()), path.c_str() + slash + 1, 0) == 0;
}

}  // namespace

uint64_t SweepImages(const std::string& base, uint64_t most_bytes, bool for_others) {
  std::vector<File> files;
  AddFiles(base, 0, for_others, &files);
  uint64_t total = 0;
  for (const File& file : files) total += file.bytes;
  if (total <= most_bytes) return total;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File& file : files) {
    if (total <= most_bytes) break;
    if (Remove(file.path)) total -= file.bytes;
  }
  return total;
}

ImageSweep::ImageSweep(std::string base, uint64_t most_bytes, bool for_others) {
  if (base.empty() || most_bytes == 0) return;
  thread_ = std::thread([this, base = std::move(base), most_bytes, for_others] {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      SweepImages(base, most_bytes, for_others);
      lock.lock();
      wake_.wait_for(lock, kPeriod, [this] { return stopping_; });
    }
  });
}

ImageSweep::~ImageSweep() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace farcall::server
