// SPDX-License-Identifier: Apache-2.0
// Bytes of a session that are too many for one record or reply of a library's call
// (proto/library/library_call.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "proto/library/library_call.h"

namespace farcall::server {

//   Thread  any
class LibraryBlobs {
 public:
  // At the end of the blob. False: the session would hold too many bytes; the blob is then gone.
  bool Append(uint64_t blob, std::span<const std::byte> bytes);
  void Drop(uint64_t blob);
  // Null: there is none of that name. It stays as it was when asked for.
  std::shared_ptr<const std::string> Find(uint64_t blob) const;
  // Kept until its last byte is taken; 0: too many bytes.
  uint64_t Keep(std::string bytes);
  // False: no such blob, or it ends before `from`.
  bool Take(uint64_t blob, uint64_t from, std::string* piece);

 private:
  // Counted as long as anybody holds it: a call may read one that is dropped meanwhile.
  struct Blob {
    explicit Blob(std::shared_ptr<std::atomic<uint64_t>> total) : all_bytes(std::move(total)) {}
    Blob(const Blob&) = delete;
    ~Blob() { all_bytes->fetch_sub(charged_bytes); }
    std::string bytes;
    uint64_t charged_bytes = 0;
    const std::shared_ptr<std::atomic<uint64_t>> all_bytes;
  };
  bool HasRoomFor(uint64_t bytes) const { return bytes <= kMaxBlobBytes - held_bytes_->load(); }
  void ChargeLocked(Blob& blob, uint64_t bytes);

  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Blob>> blobs_;
  // With a fixed charge for each blob, so that empty ones count.
  const std::shared_ptr<std::atomic<uint64_t>> held_bytes_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  uint64_t last_own_ = kServerBlob;
};

}  // namespace farcall::server
