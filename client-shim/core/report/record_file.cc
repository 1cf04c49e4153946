// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/report/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "proto/crc32c.h"

namespace farcall::client {

namespace {

constexpr size_t kHead = 8, kKind = 8;

bool IsTheUsers(const struct stat& info) {
  return S_ISREG(info.st_mode) && (info.st_uid == geteuid() || info.st_uid == 0) &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::vector<std::byte> ReadAll(const std::string& path) {
  std::vector<std::byte> bytes;
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return bytes;
  struct stat info;
  if (fstat(fd, &info) == 0 && IsTheUsers(info) && info.st_size > 0 &&
      static_cast<size_t>(info.st_size) <= kMaxRecordFileBytes) {
    bytes.resize(static_cast<size_t>(info.st_size));
    ssize_t got = read(fd, bytes.data(), bytes.size());
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  }
  close(fd);
  return bytes;
}

}  // namespace

void MakeFoldersOf(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0700);
}

bool ReadRecords(const std::string& path, const TakeRecord& take) {
  std::vector<std::byte> file = ReadAll(path);
  std::span<const std::byte> left(file);
  while (left.size() > kHead) {
    uint32_t bytes, crc;
    std::memcpy(&bytes, left.data(), 4);
    std::memcpy(&crc, left.data() + 4, 4);
    if (bytes < kKind || bytes > left.size() - kHead) return false;
    std::span<const std::byte> record = left.subspan(kHead, bytes);
    if (Crc32c(0, record) != crc) return false;
    left = left.subspan(kHead + bytes);
    take(static_cast<uint8_t>(record[0]), record.subspan(kKind));
  }
  return left.empty();
}

bool AppendRecord(const std::string& path, uint8_t kind, std::span<const std::byte> body) {
  const auto bytes = static_cast<uint32_t>(kKind + body.size());
  std::vector<std::byte> record(kHead + bytes);
  record[kHead] = std::byte{kind};
  if (!body.empty()) std::memcpy(record.data() + kHead + kKind, body.data(), body.size());
  uint32_t crc = Crc32c(0, std::span<const std::byte>(record).subspan(kHead));
  std::memcpy(record.data(), &bytes, 4);
  std::memcpy(record.data() + 4, &crc, 4);
  constexpr int kHow = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  int fd = open(path.c_str(), kHow, 0600);
  if (fd < 0 && errno == ENOENT) {
    MakeFoldersOf(path);
    fd = open(path.c_str(), kHow, 0600);
  }
  if (fd < 0) return false;
  // One write: others append at the same time.
  const bool whole = write(fd, record.data(), record.size()) == static_cast<ssize_t>(record.size());
  const int error = errno;
  close(fd);
  errno = error;
  return whole;
}

}  // namespace farcall::client
