// SPDX-License-Identifier: Apache-2.0
// Images by content: in memory while a session runs, on disk across sessions. One store per owner
// (a tenant, a pool's claim): a hash is no proof. Both are bounded: what was used longest ago goes,
// and its owner is told to send it again.
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

  // Of what a session keeps in memory, and of what an owner keeps on disk.
  struct Bounds {
    size_t memory_bytes = size_t{64} << 20;
    uint64_t disk_bytes = uint64_t{4} << 30;
  };

  // `directory` is this owner's alone; "" keeps nothing on disk.
  explicit ImageStore(std::string directory) : ImageStore(std::move(directory), Bounds()) {}
  ImageStore(std::string directory, Bounds bounds)
      : directory_(std::move(directory)), bounds_(bounds) {}

  // Takes bytes (without the NUL) whose hash the peer claims.   Errors  kMalformed (they hash to
  // something else)
  Status Put(const Hash256& hash, std::vector<std::byte> bytes);
  // Null if the store has no such image, or the file's bytes no longer hash to their name (it is
  // then removed).
  Image Get(const Hash256& hash);
  // Drops the copy in memory if the disk has one.
  void Forget(const Hash256& hash);
  size_t memory_bytes() const;
  // First 8 bytes of the hashes on disk, newest first, at most `limit`.
  std::vector<uint64_t> Known(size_t limit) const;

 private:
  struct Entry {
    Image image;
    uint64_t used = 0;  // of `uses_`: the larger, the later
  };
  std::string PathOf(const Hash256& hash) const;
  // The newest stays, however large: its load comes next.
  void KeepLocked(const Hash256& hash, Image image);
  bool MakeDiskRoom(uint64_t bytes) const;
  void WriteFile(const Hash256& hash, const std::vector<std::byte>& bytes) const;

  const std::string directory_;
  const Bounds bounds_;
  mutable std::mutex mutex_;
  std::map<Hash256, Entry> images_;
  size_t memory_bytes_ = 0;
  uint64_t uses_ = 0;
};

// A folder for what a program of ours keeps on this host: FARCALL_CACHE_DIR, or `farcall` under
// XDG_CACHE_HOME or HOME's .cache; in it `part`. "": nowhere.
std::string CacheDirectory(const std::string& part);
// Where the folders of all owners lie, by FARCALL_CACHE_DIR, XDG_CACHE_HOME or HOME; "": nowhere.
std::string ImageBaseDirectory();
// The owner's folder under FARCALL_CACHE_DIR, XDG_CACHE_HOME or HOME; made if missing; "" if none
// can be made.
std::string TenantImageDirectory(const std::string& owner);

}  // namespace farcall::server
