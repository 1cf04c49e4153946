// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_blobs.h"

#include <algorithm>
#include <utility>

namespace farcall::server {

namespace {
constexpr uint64_t kEachBytes = 256;
}  // namespace

bool LibraryBlobs::Append(uint64_t blob, std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  auto found = blobs_.find(blob);
  const uint64_t more = bytes.size() + (found == blobs_.end() ? kEachBytes : 0);
  if (blob >= kServerBlob || !HasRoomFor(more)) {
    DropLocked(blob);
    return false;
  }
  held_bytes_ += more;
  std::shared_ptr<std::string>& held = blobs_[blob];
  if (held == nullptr) {
    held = std::make_shared<std::string>();
  } else if (held.use_count() > 1) {  // a call on the helper reads it
    held = std::make_shared<std::string>(*held);
  }
  held->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return true;
}

void LibraryBlobs::Drop(uint64_t blob) {
  std::lock_guard lock(mutex_);
  DropLocked(blob);
}

void LibraryBlobs::DropLocked(uint64_t blob) {
  auto found = blobs_.find(blob);
  if (found != blobs_.end()) {
    held_bytes_ -= found->second->size() + kEachBytes;
    blobs_.erase(found);
  }
}

std::shared_ptr<const std::string> LibraryBlobs::Find(uint64_t blob) const {
  std::lock_guard lock(mutex_);
  auto found = blobs_.find(blob);
  return found == blobs_.end() ? nullptr : found->second;
}

uint64_t LibraryBlobs::Keep(std::string bytes) {
  std::lock_guard lock(mutex_);
  if (!HasRoomFor(bytes.size() + kEachBytes)) {
    return 0;
  }
  held_bytes_ += bytes.size() + kEachBytes;
  blobs_.emplace(++last_own_, std::make_shared<std::string>(std::move(bytes)));
  return last_own_;
}

bool LibraryBlobs::Take(uint64_t blob, uint64_t from, std::string* piece) {
  std::lock_guard lock(mutex_);
  auto found = blobs_.find(blob);
  if (found == blobs_.end() || from > found->second->size()) {
    return false;
  }
  *piece = found->second->substr(from, kBlobPieceBytes);
  if (from + piece->size() == found->second->size()) {
    DropLocked(blob);
  }
  return true;
}

}  // namespace farcall::server
