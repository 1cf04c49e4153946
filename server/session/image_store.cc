// SPDX-License-Identifier: Apache-2.0
// The image store's memory and files.
#include "server/session/image_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "proto/hex.h"

namespace farcall::server {

namespace fs = std::filesystem;

namespace {

Image Wrap(std::vector<std::byte> bytes) {
  bytes.push_back(std::byte{0});
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

bool WriteAll(int fd, const std::byte* data, size_t bytes) {
  while (bytes != 0) {
    ssize_t wrote = write(fd, data, bytes);
    if (wrote <= 0) {
      return false;
    }
    data += wrote;
    bytes -= static_cast<size_t>(wrote);
  }
  return true;
}

std::vector<std::byte> ReadFile(const std::string& path, size_t limit) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    return {};
  }
  struct stat status {};
  std::vector<std::byte> bytes;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<size_t>(status.st_size) <= limit) {
    bytes.reserve(static_cast<size_t>(status.st_size) + 1);
    bytes.resize(static_cast<size_t>(status.st_size));
    size_t at = 0;
    while (at < bytes.size()) {
      ssize_t got = read(fd, bytes.data() + at, bytes.size() - at);
      if (got <= 0) {
        break;
      }
      at += static_cast<size_t>(got);
    }
    bytes.resize(at);
  }
  close(fd);
  return bytes;
}

}  // namespace

Status ImageStore::Put(const Hash256& hash, std::vector<std::byte> bytes) {
  if (Sha256(bytes) != hash) {
    return {Code::kMalformed, "image: " + std::to_string(bytes.size()) +
                                  " bytes do not have the hash they came under"};
  }
  WriteFile(hash, bytes);
  std::lock_guard lock(mutex_);
  KeepLocked(hash, Wrap(std::move(bytes)));
  return {};
}

void ImageStore::KeepLocked(const Hash256& hash, Image image) {
  Entry& entry = images_[hash];
  memory_bytes_ += image->size() - (entry.image == nullptr ? 0 : entry.image->size());
  entry = {std::move(image), ++uses_};
  while (memory_bytes_ > bounds_.memory_bytes && images_.size() > 1) {
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
  if (directory_.empty()) {
    return nullptr;
  }
  std::string path = PathOf(hash);
  std::vector<std::byte> bytes = ReadFile(path, kMaxImageBytes);
  if (bytes.empty()) {
    return nullptr;
  }
  if (Sha256(bytes) != hash) {
    unlink(path.c_str());
    return nullptr;
  }
  utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);  // used now: it stays longest
  Image image = Wrap(std::move(bytes));
  std::lock_guard lock(mutex_);
  KeepLocked(hash, image);
  return image;
}

void ImageStore::Forget(const Hash256& hash) {
  if (directory_.empty() || access(PathOf(hash).c_str(), R_OK) != 0) {
    return;
  }
  std::lock_guard lock(mutex_);
  if (auto image = images_.find(hash); image != images_.end()) {
    memory_bytes_ -= image->second.image->size();
    images_.erase(image);
  }
}

std::vector<uint64_t> ImageStore::Known(size_t limit) const {
  std::vector<std::pair<fs::file_time_type, uint64_t>> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.size() != 64 || name.find_first_not_of("0123456789abcdef") != std::string::npos) {
      continue;
    }
    uint64_t prefix = 0;  // little-endian: the first byte of the hash is the lowest
    for (int i = 7; i >= 0; --i) {
      prefix = prefix << 8 |
               std::strtoul(name.substr(static_cast<size_t>(i) * 2, 2).c_str(), nullptr, 16);
    }
    found.emplace_back(entry->last_write_time(error), prefix);
  }
  std::sort(found.rbegin(), found.rend());
  if (found.size() > limit) {
    found.resize(limit);
  }
  std::vector<uint64_t> known;
  for (const auto& [when, prefix] : found) {
    known.push_back(prefix);
  }
  return known;
}

std::string ImageStore::PathOf(const Hash256& hash) const {
  return directory_ + "/" + HexOf(hash);
}

// False: it would not fit in an empty store. What was used longest ago goes, drafts that nobody
// finishes with it.
bool ImageStore::MakeDiskRoom(uint64_t bytes) const {
  if (bytes > bounds_.disk_bytes) {
    return false;
  }
  struct File {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t total = bytes;
  std::error_code error;
  for (fs::directory_iterator entry(directory_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;  // by another session's hand
    const uint64_t size = entry->file_size(gone);
    const fs::file_time_type used = entry->last_write_time(gone);
    if (!gone) {
      files.push_back({used, size, entry->path()});
      total += size;
    }
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= bounds_.disk_bytes) {
      break;
    }
    fs::remove(file.path, error);
    total -= file.bytes;
  }
  return total <= bounds_.disk_bytes;
}

// Written aside and renamed, so that a reader never sees half an image. A full disk only costs the
// cache.
void ImageStore::WriteFile(const Hash256& hash, const std::vector<std::byte>& bytes) const {
  if (directory_.empty()) {
    return;
  }
  std::string path = PathOf(hash);
  if (access(path.c_str(), F_OK) == 0 || !MakeDiskRoom(bytes.size())) {
    return;
  }
  std::string aside = path + ".XXXXXX";
  int fd = mkostemp(aside.data(), O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  bool whole = WriteAll(fd, bytes.data(), bytes.size());
  close(fd);
  if (!whole || rename(aside.c_str(), path.c_str()) != 0) {
    unlink(aside.c_str());
  }
}

std::string CacheDirectory(const std::string& part) {
  if (const char* chosen = std::getenv("FARCALL_CACHE_DIR"); chosen != nullptr && *chosen != 0) {
    return std::string(chosen) + "/" + part;
  }
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0) {
    return std::string(cache) + "/farcall/" + part;
  }
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == 0 ? "" : std::string(home) + "/.cache/farcall/" + part;
}

std::string ImageBaseDirectory() {
  return CacheDirectory("server");
}

std::string TenantImageDirectory(const std::string& owner) {
  const std::string base = ImageBaseDirectory();
  if (base.empty()) {
    return "";
  }
  Hash256 hash = Sha256(std::as_bytes(std::span(owner)));
  std::string directory = base + "/" + HexOf(std::span(hash).first(16));
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return "";
  }
  fs::permissions(directory, fs::perms::owner_all, error);
  return directory;
}

}  // namespace farcall::server
