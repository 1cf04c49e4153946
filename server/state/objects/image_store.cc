// SPDX-License-Identifier: Apache-2.0
// The image store's memory, and its look at the files.
#include "server/state/objects/image_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "proto/hex.h"

namespace farcall::server {

namespace {

Image Wrap(std::vector<std::byte> bytes) {
  bytes.push_back(std::byte{0});
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

std::vector<std::byte> ReadFile(int folder, const std::string& name, size_t limit) {
  int fd = openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return {};
  struct stat status {};
  std::vector<std::byte> bytes;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<size_t>(status.st_size) <= limit) {
    bytes.reserve(static_cast<size_t>(status.st_size) + 1);
    bytes.resize(static_cast<size_t>(status.st_size));
    size_t at = 0;
    while (at < bytes.size()) {
      ssize_t got = read(fd, bytes.data() + at, bytes.size() - at);
      if (got <= 0) break;
      at += static_cast<size_t>(got);
    }
    bytes.resize(at);
  }
  close(fd);
  return bytes;
}

// The first 8 bytes of the hash that a file is named by, little-endian: the first is the lowest.
uint64_t PrefixOf(const std::string& name) {
  uint64_t prefix = 0;
  for (int i = 7; i >= 0; --i) {
    prefix =
        prefix << 8 | std::strtoul(name.substr(static_cast<size_t>(i) * 2, 2).c_str(), nullptr, 16);
  }
  return prefix;
}

bool IsImageName(const std::string& name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Status ImageStore::Put(const Hash256& hash, std::vector<std::byte> bytes) {
  if (Sha256(bytes) != hash) {
    return {Code::kMalformed, "image: " + std::to_string(bytes.size()) +
                                  " bytes do not have the hash they came under"};
  }
  if (keeper_ != nullptr && !IsOnDisk(hash)) keeper_->Keep(hash, bytes);
  std::lock_guard lock(mutex_);
  KeepLocked(hash, Wrap(std::move(bytes)));
  return {};
}

void ImageStore::KeepLocked(const Hash256& hash, Image image) {
  Entry& entry = images_[hash];
  memory_bytes_ += image->size() - (entry.image == nullptr ? 0 : entry.image->size());
  entry = {std::move(image), ++uses_};
  while (memory_bytes_ > most_bytes_ && images_.size() > 1) {
    auto oldest = std::min_element(
        images_.begin(), images_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    memory_bytes_ -= oldest->second.image->size();
    images_.erase(oldest);
  }
}

size_t ImageStore::memory_bytes() const {
  std::lock_guard lock(mutex_);
  return memory_bytes_;
}

Image ImageStore::Get(const Hash256& hash) {
  {
    std::lock_guard lock(mutex_);
    auto image = images_.find(hash);
    if (image != images_.end()) {
      image->second.used = ++uses_;
      return image->second.image;
    }
  }
  std::vector<std::byte> bytes = ReadFile(folder_, HexOf(hash), kMaxImageBytes);
  if (bytes.empty()) return nullptr;
  const bool intact = Sha256(bytes) == hash;
  if (keeper_ != nullptr) keeper_->NoteRead(hash, intact);
  if (!intact) return nullptr;
  Image image = Wrap(std::move(bytes));
  std::lock_guard lock(mutex_);
  KeepLocked(hash, image);
  return image;
}

void ImageStore::Forget(const Hash256& hash) {
  if (!IsOnDisk(hash)) return;
  std::lock_guard lock(mutex_);
  if (auto image = images_.find(hash); image != images_.end()) {
    memory_bytes_ -= image->second.image->size();
    images_.erase(image);
  }
}

bool ImageStore::IsOnDisk(const Hash256& hash) const {
  return folder_ >= 0 && faccessat(folder_, HexOf(hash).c_str(), R_OK, 0) == 0;
}

std::vector<uint64_t> ImageStore::Known(size_t limit) const {
  const int copy = folder_ < 0 ? -1 : fcntl(folder_, F_DUPFD_CLOEXEC, 0);
  DIR* entries = copy < 0 ? nullptr : fdopendir(copy);
  if (entries == nullptr) return {};
  rewinddir(entries);  // the copy is as far as its original
  std::vector<std::pair<timespec, uint64_t>> found;
  while (const dirent* entry = readdir(entries)) {
    struct stat status {};
    if (IsImageName(entry->d_name) &&
        fstatat(folder_, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
      found.emplace_back(status.st_mtim, PrefixOf(entry->d_name));
  }
  closedir(entries);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.tv_sec, a.first.tv_nsec) > std::pair(b.first.tv_sec, b.first.tv_nsec);
  });
  if (found.size() > limit) found.resize(limit);
  std::vector<uint64_t> known;
  known.reserve(found.size());
  for (const auto& [when, prefix] : found) known.push_back(prefix);
  return known;
}

std::string CacheDirectory(const std::string& part) {
  if (const char* chosen = std::getenv("FARCALL_CACHE_DIR"); chosen != nullptr && *chosen != 0)
    return std::string(chosen) + "/" + part;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0)
    return std::string(cache) + "/farcall/" + part;
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == 0 ? "" : std::string(home) + "/.cache/farcall/" + part;
}

std::string ImageBaseDirectory() {
  return CacheDirectory("server");
}

}  // namespace farcall::server
