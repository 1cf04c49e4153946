// SPDX-License-Identifier: Apache-2.0
#include "server/pool_agent/membership.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "generated/proto/pool.pb.h"
#include "proto/handshake/crypto.h"
#include "proto/hex.h"
#include "proto/log_line.h"
#include "server/state/objects/image_store.h"

namespace farcall::pool {

namespace {

namespace fs = std::filesystem;

std::string PathOf(const std::string& url, const std::string& host) {
  std::string folder = server::CacheDirectory("pool");
  if (folder.empty()) return "";
  Hash256 hash = Sha256({BytesOf(url), BytesOf(std::string_view("\0", 1)), BytesOf(host)});
  return folder + "/" + HexOf(std::span(hash).first(16)) + ".credential";
}

}  // namespace

std::string Membership::MakeFolder() {
  std::string folder = server::CacheDirectory("pool");
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (folder.empty() || error) return "";
  fs::permissions(folder, fs::perms::owner_all, error);
  return folder;
}

Status Membership::Keep(const std::string& host) const {
  std::string path = PathOf(pool_.url, host), aside = path + "." + std::to_string(getpid());
  if (path.empty()) return {Code::kUnavailable, "set FARCALL_CACHE_DIR"};
  int file = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  auto failed = [&] { return Status(Code::kUnavailable, path + ": " + std::strerror(errno)); };
  if (file < 0) return failed();
  bool is_whole = write(file, credential_.data(), credential_.size()) ==
                      static_cast<ssize_t>(credential_.size()) &&
                  fsync(file) == 0;
  Status kept = is_whole && rename(aside.c_str(), path.c_str()) == 0 ? Status() : failed();
  close(file);
  if (!kept.ok()) unlink(aside.c_str());
  return kept;
}

Status Membership::Join(const std::string& host) {
  if (host_ != host) {
    host_ = host;
    credential_.clear();
    std::ifstream(PathOf(pool_.url, host)) >> credential_;
    is_rejected_ = false;
  }
  if (pool_.token.empty() || (!credential_.empty() && !is_rejected_)) return {};
  v1::JoinRequest request;
  request.set_host(host);
  request.set_token(pool_.token);
  v1::Joined joined;
  PoolAddress nobody = pool_;
  nobody.token.clear();
  FARCALL_TRY(RestCall(nobody, "POST", "/v1/join", &request, &joined));
  credential_ = joined.credential();
  is_rejected_ = false;
  if (Status kept = Keep(host); !kept.ok())
    LogLine(LogSeverity::kWarn, "agent",
            "the pool's credential is not kept (" + kept.message() +
                "): after a restart this host needs another join token");
  return {};
}

}  // namespace farcall::pool
