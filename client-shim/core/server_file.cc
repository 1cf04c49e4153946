// SPDX-License-Identifier: Apache-2.0
// Files of the server's toolkit that programs read by themselves, kept in the user's cache.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "client-shim/core/channel/cuda_data.h"
#include "client-shim/core/channel/library_channel.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/report/record_file.h"
#include "client-shim/core/session/config.h"
#include "client-shim/core/settings/settings.h"
#include "proto/codec.h"
#include "proto/library/library_file.h"

namespace farcall::client {

namespace {

constexpr const char* kLibdevice = "/nvvm/libdevice/libdevice.10.bc";

bool IsBitcode(const std::string& bytes) {
  return bytes.compare(0, 4, "BC\xC0\xDE") == 0;
}

struct Piece {
  int32_t status = -1;
  uint64_t whole = 0;
  std::string bytes;
};

// What follows `from`. Nothing: the session cannot be asked, or the server is an older one.
std::optional<Piece> Ask(LibraryFile file, uint64_t from) {
  struct {
    LibraryHeader header{};
    uint32_t file = 0, unused = 0;
    uint64_t from = 0;
  } body;
  body.header.library = static_cast<uint8_t>(LibraryId::kNvrtc);
  body.header.function = kLibraryFile;
  body.file = static_cast<uint32_t>(file);
  body.from = from;
  Piece piece;
  auto take = [](void* user, const void* bytes, size_t count) {
    auto* into = static_cast<Piece*>(user);
    Reader in(std::span(static_cast<const std::byte*>(bytes), count));
    into->status = in.Get<int32_t>();
    in.Get<uint32_t>();
    into->whole = in.Get<uint64_t>();
    into->bytes = in.GetString();
    if (!in.Done()) into->status = -1;
  };
  int asked =
      TheLibraryChannel()->ask(&body, sizeof(body), nullptr, StreamUse::kNone, take, &piece);
  if (asked != 0) return std::nullopt;
  return piece;
}

// Empty: with one line in the log. The server's word is checked, as it becomes a file.
std::string Fetch(LibraryFile file) {
  std::string bytes;
  for (;;) {
    std::optional<Piece> piece = Ask(file, bytes.size());
    if (!piece) return "";
    if (piece->status != 0) {
      Log(LogLevel::kInfo, "the server: %s", piece->bytes.c_str());
      return "";
    }
    if (piece->whole > kMaxFileBytes || piece->bytes.empty() ||
        piece->bytes.size() > piece->whole - std::min<uint64_t>(bytes.size(), piece->whole)) {
      Log(LogLevel::kWarn, "libdevice.10.bc: the server's answer is of a wrong size");
      return "";
    }
    bytes += piece->bytes;
    if (bytes.size() == piece->whole) break;
  }
  if (IsBitcode(bytes)) return bytes;
  Log(LogLevel::kWarn, "libdevice.10.bc: what the server sent is no LLVM bitcode");
  return "";
}

bool IsThere(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && info.st_size > 0 && access(path.c_str(), R_OK) == 0;
}

// Before the server is asked: a cache that cannot be written keeps nothing.
bool CanKeep(const std::string& path) {
  MakeFoldersOf(path);
  const std::string folder = path.substr(0, path.rfind('/'));
  if (access(folder.c_str(), W_OK | X_OK) == 0) return true;
  Log(LogLevel::kWarn,
      "libdevice.10.bc cannot be kept in %s: %s; name a folder that can be written in "
      "FARCALL_CACHE_DIR",
      folder.c_str(), std::strerror(errno));
  return false;
}

// The file in one piece, for this user alone, or not at all.
bool WriteKept(const std::string& path, const std::string& bytes) {
  MakeFoldersOf(path);
  static std::atomic<unsigned> last{0};
  const std::string draft =
      path + "." + std::to_string(getpid()) + "." + std::to_string(++last) + ".new";
  int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  size_t written = 0;
  while (written < bytes.size()) {
    ssize_t done = write(file, bytes.data() + written, bytes.size() - written);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) break;
    written += static_cast<size_t>(done);
  }
  bool whole = written == bytes.size() && fsync(file) == 0;
  close(file);
  whole = whole && rename(draft.c_str(), path.c_str()) == 0;
  int error = errno;
  if (!whole) unlink(draft.c_str());
  errno = error;
  return whole;
}

bool IsWanted() {
  Setting setting = Settings::Load(Settings::Files()).Find("libdevice");
  if (setting.value.empty() || setting.value == "1") return true;
  if (setting.value != "0")
    Log(LogLevel::kWarn, "%s: libdevice '%s' must be 0 or 1", setting.source.c_str(),
        setting.value.c_str());
  return false;
}

// "": switched off, or no cache.
const std::string& Folder() {
  static const auto* folder =
      new std::string(IsWanted() && !GetConfig().cache_dir.empty()
                          ? CudaDataFolder(GetConfig().cache_dir, GetConfig().server_scope)
                          : "");
  return *folder;
}

const char* DataFolder() {
  if (Folder().empty()) return nullptr;
  static const bool usable = IsThere(Folder() + kLibdevice) || CanKeep(Folder() + kLibdevice);
  return usable ? Folder().c_str() : nullptr;
}

void FillFolder() {
  const std::string path = Folder() + kLibdevice;
  if (DataFolder() == nullptr || IsThere(path)) return;
  // Ahead of the rest, of which a forked child has no part.
  if (TheLibraryChannel()->begin() != 0) return;
  static std::atomic<bool> tried{false};
  if (tried.exchange(true)) return;
  const std::string bytes = Fetch(LibraryFile::kLibdevice);
  if (bytes.empty()) return;
  if (WriteKept(path, bytes))
    Log(LogLevel::kInfo, "%s: %zu bytes, of the server's toolkit", path.c_str(), bytes.size());
  else
    Log(LogLevel::kWarn, "%s cannot be written: %s", path.c_str(), std::strerror(errno));
}

}  // namespace

const CudaDataTable* TheCudaDataTable() {
  static constexpr CudaDataTable kTable = {
      sizeof(CudaDataTable), DataFolder, FillFolder,
      [](const char* line) { Log(LogLevel::kInfo, "%s", line); }};
  return &kTable;
}

}  // namespace farcall::client
