// SPDX-License-Identifier: Apache-2.0
// What is known of an image's kernels, kept on disk: an append-only file per (image, device,
// driver, options). A record is {u32 bytes, u32 crc32c, u8 kind and body}; a torn or foreign tail
// is ignored.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "client-shim/core/config.h"
#include "client-shim/core/log.h"
#include "client-shim/cuda/image.h"
#include "client-shim/cuda/module.h"
#include "proto/codec.h"
#include "proto/crc32c.h"

namespace farcall::client {

namespace {

constexpr uint8_t kLoads = 1, kKernel = 2;
constexpr size_t kMaxCacheBytes = 64u << 20;
constexpr size_t kRecordHead = 8;

bool MakeFolder(const std::string& path) {
  for (size_t at = 1; at != std::string::npos; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0700);
  }
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

// A container may be read-only: then nothing is kept, and each run asks anew.
void TellOnce(const std::string& folder, int error) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  Log(LogLevel::kWarn,
      "the cache of kernels cannot be written: %s: %s; name a folder that can in "
      "FARCALL_CACHE_DIR",
      folder.c_str(), std::strerror(error));
}

std::string HexOf(const Hash256& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : hash) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<std::byte> ReadAll(const std::string& path) {
  std::vector<std::byte> bytes;
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return bytes;
  struct stat info;
  if (fstat(fd, &info) == 0 && info.st_size > 0 &&
      static_cast<size_t>(info.st_size) <= kMaxCacheBytes) {
    bytes.resize(static_cast<size_t>(info.st_size));
    ssize_t got = read(fd, bytes.data(), bytes.size());
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  }
  close(fd);
  return bytes;
}

}  // namespace

void Image::OpenCache(const std::string& key) {
  const std::string& folder = GetConfig().cache_dir;
  if (folder.empty()) return;
  std::string text = "farcall-kernels-1|" + HexOf(hash_) + "|" + key;
  std::string name = HexOf(Sha256(std::as_bytes(std::span(text))));
  std::lock_guard lock(mutex_);
  cache_path_ = folder + "/client/" + name;
  ReadCache();
}

void Image::ReadCache() {
  std::vector<std::byte> file = ReadAll(cache_path_);
  std::span<const std::byte> left(file);
  while (left.size() > kRecordHead) {
    uint32_t bytes, crc;
    std::memcpy(&bytes, left.data(), 4);
    std::memcpy(&crc, left.data() + 4, 4);
    if (bytes == 0 || bytes > left.size() - kRecordHead) return;
    std::span<const std::byte> record = left.subspan(kRecordHead, bytes);
    if (Crc32c(0, record) != crc) return;
    left = left.subspan(kRecordHead + bytes);
    if (record[0] == std::byte{kLoads}) known_to_load_ = true;
    if (record[0] != std::byte{kKernel} || bytes < 8) continue;
    Reader in(record.subspan(8));
    auto* info = new KernelInfo;
    info->name = in.GetString();
    info->attributes.resize(in.GetCount(4));
    for (int32_t& attribute : info->attributes) attribute = in.Get<int32_t>();
    info->parameters.resize(in.GetCount(8));
    for (Parameter& parameter : info->parameters) {
      parameter.offset = in.Get<uint32_t>();
      parameter.bytes = in.Get<uint32_t>();
    }
    info->Measure();
    if (in.Done() && info->parameter_bytes <= kMaxInlineBytes) {
      kernels_[info->name] = info;
    } else {
      delete info;
    }
  }
}

void Image::AppendCache(uint8_t kind, std::span<const std::byte> body) {
  if (cache_path_.empty()) return;
  uint32_t bytes = static_cast<uint32_t>(8 + body.size());
  std::vector<std::byte> record(kRecordHead + bytes);
  record[kRecordHead] = std::byte{kind};
  if (!body.empty()) std::memcpy(record.data() + kRecordHead + 8, body.data(), body.size());
  uint32_t crc = Crc32c(0, std::span<const std::byte>(record).subspan(kRecordHead));
  std::memcpy(record.data(), &bytes, 4);
  std::memcpy(record.data() + 4, &crc, 4);
  int fd = open(cache_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 && MakeFolder(cache_path_.substr(0, cache_path_.rfind('/')))) {
    fd = open(cache_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  if (fd < 0) {
    TellOnce(GetConfig().cache_dir, errno);
    cache_path_.clear();
    return;
  }
  ssize_t ignored =
      write(fd, record.data(), record.size());  // one write: processes append side by side
  (void)ignored;
  close(fd);
}

void Image::RememberLoad() {
  std::lock_guard lock(mutex_);
  if (known_to_load_) return;
  known_to_load_ = true;
  AppendCache(kLoads, {});
}

const KernelInfo* Image::Find(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : found->second;
}

const KernelInfo* Image::Remember(KernelInfo info) {
  auto* kept = new KernelInfo(std::move(info));
  Builder body;
  body.PutString(kept->name);
  body.Put<uint64_t>(kept->attributes.size());
  for (int32_t attribute : kept->attributes) body.Put<int32_t>(attribute);
  body.Put<uint64_t>(kept->parameters.size());
  for (const Parameter& parameter : kept->parameters) {
    body.Put<uint32_t>(parameter.offset);
    body.Put<uint32_t>(parameter.bytes);
  }
  std::lock_guard lock(mutex_);
  kernels_[kept->name] = kept;
  AppendCache(kKernel, body.bytes());
  return kept;
}

}  // namespace farcall::client
