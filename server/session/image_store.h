// SPDX-License-Identifier: Apache-2.0
// Images by content: in memory while a session runs, on disk across sessions. One store per tenant:
// a hash is no proof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/handshake.h"

namespace farcall::server {

using Image = std::shared_ptr<const std::vector<std::byte>>;  // one NUL is kept after the last
                                                              // byte: PTX is text

//   Thread  any
class ImageStore {
 public:
  static constexpr size_t kMaxImageBytes = size_t{2} << 30;

  // `directory` is this tenant's alone; "" keeps nothing on disk.
  explicit ImageStore(std::string directory) : directory_(std::move(directory)) {}

  // Takes bytes (without the NUL) whose hash the peer claims.   Errors  kMalformed (they hash to
  // something else)
  Status Put(const Hash256& hash, std::vector<std::byte> bytes);
  // Null if the store has no such image, or the file's bytes no longer hash to their name (it is
  // then removed).
  Image Get(const Hash256& hash);
  // Drops the copy in memory if the disk has one.
  void Forget(const Hash256& hash);
  // First 8 bytes of the hashes on disk, newest first, at most `limit`.
  std::vector<uint64_t> Known(size_t limit) const;

 private:
  std::string PathOf(const Hash256& hash) const;
  void WriteFile(const Hash256& hash, const std::vector<std::byte>& bytes) const;

  const std::string directory_;
  std::mutex mutex_;
  std::map<Hash256, Image> images_;
};

// The tenant's folder under FARCALL_CACHE_DIR, XDG_CACHE_HOME or HOME; made if missing; "" if none
// can be made.
std::string TenantImageDirectory(const std::string& tenant);

}  // namespace farcall::server
