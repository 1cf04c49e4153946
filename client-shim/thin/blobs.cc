// SPDX-License-Identifier: Apache-2.0
#include "client-shim/thin/blobs.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace farcall::thin {

namespace {

constexpr uint64_t kInlineBytes = 16u << 10;
constexpr uint64_t kMaxInlineBlobBytes = 256u << 10;  // in one record
constexpr uint64_t kMaxKeptBytes = 64u << 20;         // at the server, between calls

std::atomic<uint64_t> g_last_blob{0};

struct Kept {
  std::shared_ptr<const std::string> text;
  uint64_t blob;
};
struct KeptTexts {
  std::mutex mutex;
  std::unordered_map<std::string_view, Kept> by_text;
  uint64_t bytes = 0;
  int users = 0;  // calls that may name one
};
KeptTexts& TheKept() {
  static auto* kept = new KeptTexts;
  return *kept;
}

}  // namespace

uint64_t SendBlob(std::string_view text, int* status) {
  // Other libraries of the process count for themselves.
  const uint64_t blob = static_cast<uint64_t>(kLibrary.id) << 48 |
                        static_cast<uint64_t>(kMajor) << 40 | ++g_last_blob;
  size_t sent = 0;
  do {
    std::string_view piece = text.substr(sent, kBlobPieceBytes);
    Call put(kLibraryPut);
    put.Value<uint64_t>(blob);
    put.In(piece.data(), piece.size());
    *status = put.Run();
    sent += piece.size();
  } while (*status == 0 && sent < text.size());
  return blob;
}

void DropBlob(uint64_t blob) {
  Call drop(kLibraryDrop);
  drop.Value<uint64_t>(blob);
  drop.Run();
}

CallTexts::CallTexts(Call& call) : call_(call) {
  // Now, as a fork may find the lock of the kept texts held, and does not wait for it: from here on
  // a child knows that it is one.
  const int opened = Open();
  is_open_ = opened == 0;
  if (!is_open_) {
    call_.Refuse(opened);
    return;
  }
  std::lock_guard lock(TheKept().mutex);
  ++TheKept().users;
}

CallTexts::~CallTexts() {
  if (!is_open_) return;
  for (uint64_t blob : blobs_) DropBlob(blob);
  KeptTexts& kept = TheKept();
  std::lock_guard lock(kept.mutex);
  if (--kept.users != 0 || kept.bytes < kMaxKeptBytes) return;
  for (const auto& [text, one] : kept.by_text) DropBlob(one.blob);
  kept.by_text.clear();
  kept.bytes = 0;
}

void CallTexts::PutInline(std::string_view text) {
  inline_bytes_ += text.size();
  call_.Value<uint64_t>(0);
  call_.In(text.data() == nullptr ? "" : text.data(), text.size());
}

void CallTexts::Put(std::string_view text) {
  if (!is_open_) return;
  if (text.size() <= kInlineBytes && inline_bytes_ + text.size() <= kMaxInlineBlobBytes)
    return PutInline(text);
  int status = 0;
  blobs_.push_back(SendBlob(text, &status));
  if (status != 0) return call_.Refuse(status);
  PutBlob(blobs_.back());
}

void CallTexts::PutKept(const std::shared_ptr<const std::string>& text) {
  if (!is_open_) return;
  constexpr uint64_t kTinyBytes = 64;
  if (text->size() <= kTinyBytes && inline_bytes_ + kTinyBytes <= kMaxInlineBlobBytes)
    return PutInline(*text);
  KeptTexts& kept = TheKept();
  std::lock_guard lock(kept.mutex);
  auto found = kept.by_text.find(*text);
  if (found == kept.by_text.end()) {
    int status = 0;
    const uint64_t blob = SendBlob(*text, &status);
    if (status != 0) return call_.Refuse(status);
    found = kept.by_text.emplace(*text, Kept{text, blob}).first;  // views what it keeps
    kept.bytes += text->size();
  }
  PutBlob(found->second.blob);
}

void LongAnswer::Await(Call& call) {
  call.OutValue(&head);
  call.OutText(&bytes);
}

int LongAnswer::Complete() {
  if (head.blob == 0) return bytes.size() == head.bytes ? 0 : kLibrary.internal;
  bytes.clear();
  while (bytes.size() < head.bytes) {
    std::string piece;
    Call take(kLibraryTake);
    take.Value<uint64_t>(head.blob);
    take.Value<uint64_t>(bytes.size());
    take.OutText(&piece);
    int status = take.Ask();
    if (status != 0) return status;
    if (piece.empty()) return kLibrary.internal;
    bytes += piece;
  }
  return 0;
}

}  // namespace farcall::thin
