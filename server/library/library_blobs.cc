// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_blobs.h"

#include <algorithm>
#include <utility>

namespace farcall::server {

namespace {
constexpr uint64_t kEachBytes = 256;
}  // namespace

void LibraryBlobs::ChargeLocked(Blob& blob, uint64_t bytes) {
  blob.charged_bytes += bytes;
  held_bytes_->fetch_add(bytes);
}

bool LibraryBlobs::Append(uint64_t blob, std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  auto found = blobs_.find(blob);
  const bool is_new = found == blobs_.end();
  // One that a call reads stays as it is: no client of ours adds to it by then.
  const bool is_read = !is_new && found->second.use_count() > 1;
  const uint64_t more = bytes.size() + (is_new ? kEachBytes : 0);
  if (blob >= kServerBlob || is_read || !HasRoomFor(more)) {
    blobs_.erase(blob);
    return false;
  }
  std::shared_ptr<Blob>& held = blobs_[blob];
  if (held == nullptr) held = std::make_shared<Blob>(held_bytes_);
  ChargeLocked(*held, more);
  held->bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return true;
}

void LibraryBlobs::Drop(uint64_t blob) {
  std::lock_guard lock(mutex_);
  blobs_.erase(blob);
}

std::shared_ptr<const std::string> LibraryBlobs::Find(uint64_t blob) const {
  std::lock_guard lock(mutex_);
  auto found = blobs_.find(blob);
  return found == blobs_.end()
             ? nullptr
             : std::shared_ptr<const std::string>(found->second, &found->second->bytes);
}

uint64_t LibraryBlobs::Keep(std::string bytes) {
  std::lock_guard lock(mutex_);
  if (!HasRoomFor(bytes.size() + kEachBytes)) return 0;
  auto blob = std::make_shared<Blob>(held_bytes_);
  ChargeLocked(*blob, bytes.size() + kEachBytes);
  blob->bytes = std::move(bytes);
  blobs_.emplace(++last_own_, std::move(blob));
  return last_own_;
}

bool LibraryBlobs::Take(uint64_t blob, uint64_t from, std::string* piece) {
  std::lock_guard lock(mutex_);
  auto found = blobs_.find(blob);
  if (found == blobs_.end() || from > found->second->bytes.size()) return false;
  *piece = found->second->bytes.substr(from, kBlobPieceBytes);
  if (from + piece->size() == found->second->bytes.size()) blobs_.erase(found);
  return true;
}

}  // namespace farcall::server
