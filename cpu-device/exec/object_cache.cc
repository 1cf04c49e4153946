// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/object_cache.h"

#include <cpuid.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "cpu-device/exec/context.h"

namespace farcall::cpu_device {
namespace {

constexpr char kMagic[8] = {'F', 'C', 'P', 'T', 'X', 'O', 'B', '2'};
constexpr size_t kMaxObjectBytes = 1u << 30;
constexpr size_t kMaxNoticeBytes = 1u << 16;

struct Header {
  char magic[8];
  CacheKey key;
  CacheKey object_hash;   // of the notice too
  uint64_t object_bytes;  // then come the notice's
  uint64_t notice_bytes;
  uint32_t form;
  uint32_t version;
};

class Hasher {
 public:
  Hasher() { crypto_generichash_init(&state_, nullptr, 0, sizeof(CacheKey)); }
  void Add(const void* data, size_t bytes) {
    crypto_generichash_update(&state_, static_cast<const unsigned char*>(data), bytes);
  }
  CacheKey Finish() {
    CacheKey key;
    crypto_generichash_final(&state_, key.data(), key.size());
    return key;
  }

 private:
  crypto_generichash_state state_;
};

// Features and model of this CPU, as code generation sees them.
void AddCpu(Hasher& hasher) {
  uint32_t regs[4];
  for (uint32_t leaf : {0u, 1u, 7u, 0x80000001u}) {
    memset(regs, 0, sizeof(regs));
    __get_cpuid_count(leaf, 0, &regs[0], &regs[1], &regs[2], &regs[3]);
    if (leaf == 1) regs[1] = 0;             // holds the number of the core we run on
    if (leaf == 1) regs[2] &= ~(1u << 27);  // OSXSAVE mirrors a setting
    hasher.Add(regs, sizeof(regs));
  }
}

std::string PathOf(const std::string& directory, const CacheKey& key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string path = directory + "/";
  for (uint8_t byte : key) {
    path += kDigits[byte >> 4];
    path += kDigits[byte & 15];
  }
  return path + ".ptxobj";
}

bool ReadWhole(int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes) {
    ssize_t got = read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteWhole(int fd, const void* data, size_t bytes) {
  auto* at = static_cast<const char*>(data);
  while (bytes) {
    ssize_t wrote = write(fd, at, bytes);
    if (wrote <= 0) return false;
    at += wrote;
    bytes -= static_cast<size_t>(wrote);
  }
  return true;
}

void MakeDirectories(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

// Executable code comes out of this file: it must be ours alone, unless its folder says enough.
bool IsTrusted(int fd, bool shared) {
  struct stat info;
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
         (shared || (info.st_uid == geteuid() && !(info.st_mode & (S_IWGRP | S_IWOTH))));
}

}  // namespace

CacheKey HashText(std::string_view text) {
  Hasher hasher;
  hasher.Add(text.data(), text.size());
  return hasher.Finish();
}

CacheKey KernelKey(const CacheKey& text_hash, std::string_view kernel) {
  Hasher hasher;
  hasher.Add(&kCodegenVersion, sizeof(kCodegenVersion));
  AddCpu(hasher);
  hasher.Add(text_hash.data(), text_hash.size());
  hasher.Add(kernel.data(), kernel.size());
  return hasher.Finish();
}

static CacheKey HashKernel(const CachedKernel& kernel) {
  Hasher hasher;
  hasher.Add(kernel.object.data(), kernel.object.size());
  hasher.Add(kernel.notice.data(), kernel.notice.size());
  return hasher.Finish();
}

bool ReadCachedKernel(const CacheFolder& folder, const CacheKey& key, CachedKernel* kernel) {
  if (folder.path.empty()) return false;
  std::string path = PathOf(folder.path, key);
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  Header header;
  char extra;
  bool good = IsTrusted(fd, folder.shared) && ReadWhole(fd, &header, sizeof(header)) &&
              memcmp(header.magic, kMagic, sizeof(kMagic)) == 0 && header.key == key &&
              header.version == kCodegenVersion &&
              header.form <= static_cast<uint32_t>(CodeForm::kRegions) &&
              header.object_bytes <= kMaxObjectBytes && header.notice_bytes <= kMaxNoticeBytes;
  if (good) {
    struct stat info;
    good = fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_size) ==
                                        sizeof(header) + header.object_bytes + header.notice_bytes;
  }
  if (good) {
    kernel->object.resize(header.object_bytes);
    kernel->notice.resize(header.notice_bytes);
    good = ReadWhole(fd, kernel->object.data(), kernel->object.size()) &&
           ReadWhole(fd, kernel->notice.data(), kernel->notice.size()) &&
           read(fd, &extra, 1) == 0 && HashKernel(*kernel) == header.object_hash;
    kernel->form = static_cast<CodeForm>(header.form);
  }
  close(fd);
  if (!good) unlink(path.c_str());
  return good;
}

void WriteCachedKernel(const CacheFolder& folder, const CacheKey& key, const CachedKernel& kernel) {
  if (folder.path.empty()) return;
  static std::atomic<uint32_t> counter{0};
  MakeDirectories(folder.path);
  std::string path = PathOf(folder.path, key);
  std::string temporary =
      path + "." + std::to_string(getpid()) + "." + std::to_string(counter++) + ".tmp";
  const mode_t mode = folder.shared ? 0666 : 0600;
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return;
  Header header = {};
  memcpy(header.magic, kMagic, sizeof(kMagic));
  header.key = key;
  header.object_hash = HashKernel(kernel);
  header.object_bytes = kernel.object.size();
  header.notice_bytes = kernel.notice.size();
  header.form = static_cast<uint32_t>(kernel.form);
  header.version = kCodegenVersion;
  bool good = WriteWhole(fd, &header, sizeof(header)) &&
              WriteWhole(fd, kernel.object.data(), kernel.object.size()) &&
              WriteWhole(fd, kernel.notice.data(), kernel.notice.size());
  close(fd);
  if (!good || rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace farcall::cpu_device
