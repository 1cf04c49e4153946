// SPDX-License-Identifier: Apache-2.0
// Images by content: in memory while a session runs, on disk across sessions. One folder per owner
// (a tenant, a pool's claim): a hash is no proof. The folder is the supervisor's, which bounds it
// (server/supervisor/images/image_writer.h); here it is only read. What is not there any more, its
// owner is told to send again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/handshake/handshake.h"
#include "server/state/objects/image_keeper.h"

namespace farcall::server {

using Image = std::shared_ptr<const std::vector<std::byte>>;  // one NUL is kept after the last
                                                              // byte: PTX is text

//   Thread  any
class ImageStore {
 public:
  static constexpr size_t kMaxImageBytes = size_t{2} << 30;

  static constexpr size_t kMemoryBytes = size_t{64} << 20;  // of what a session keeps in memory

  // `folder`: a descriptor of the owner's, which outlives the store; -1: nothing is on disk.
  // `keeper`: who writes there; null: nobody.
  ImageStore(int folder, ImageKeeper* keeper, size_t memory_bytes = kMemoryBytes)
      : folder_(folder), keeper_(keeper), most_bytes_(memory_bytes) {}

  // Takes bytes (without the NUL) whose hash the peer claims.   Errors  kMalformed (they hash to
  // something else)
  Status Put(const Hash256& hash, std::vector<std::byte> bytes);
  // Null if the store has no such image, or the file's bytes no longer hash to their name (its
  // keeper is told).
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
  bool IsOnDisk(const Hash256& hash) const;
  // The newest stays, however large: its load comes next.
  void KeepLocked(const Hash256& hash, Image image);

  const int folder_;
  ImageKeeper* const keeper_;
  const size_t most_bytes_;
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

}  // namespace farcall::server
