// SPDX-License-Identifier: Apache-2.0
// Gathers outgoing records into frames.
#include "server/state/queues/outbox.h"

#include <algorithm>
#include <array>

#include "proto/codec.h"

namespace farcall::server {

namespace {

constexpr size_t kLargestRecord = kMaxFrameBytes - sizeof(FrameHeader);

}  // namespace

void Outbox::Reply(const RecordHeader& request, CUresult status, std::span<const std::byte> out) {
  if (sizeof(RecordHeader) + 8 + AlignUp(out.size(), 8) > kLargestRecord) {
    status = CUDA_ERROR_INVALID_VALUE;
    out = {};
  }
  std::array<int32_t, 2> head{static_cast<int32_t>(status), 0};
  std::lock_guard lock(mutex_);
  Append(request.call, kReply, request.serial, std::as_bytes(std::span(head)), out);
}

void Outbox::Error(const RecordHeader& request, CUresult status, std::string_view detail) {
  Builder body;
  body.Put<uint32_t>(request.serial);
  body.Put<uint16_t>(request.call);
  body.Put<uint16_t>(request.context);
  body.Put<int32_t>(status);
  body.PutString(detail.substr(0, 1000));
  Push(SessionCall::kError, body.bytes());
}

void Outbox::Push(SessionCall call, std::span<const std::byte> body) {
  std::lock_guard lock(mutex_);
  Append(static_cast<uint16_t>(call), 0, 0, body, {});
}

void Outbox::Flush() {
  std::lock_guard lock(mutex_);
  FlushLocked();
}

void Outbox::Append(uint16_t call, uint16_t flags, uint32_t serial, std::span<const std::byte> head,
                    std::span<const std::byte> tail) {
  size_t body_bytes = head.size() + tail.size();
  size_t bytes = AlignUp(sizeof(RecordHeader) + body_bytes, 8);
  if (frame_ != nullptr && (frame_->room().size() < bytes || frame_->records() == UINT16_MAX))
    FlushLocked();
  if (frame_ == nullptr) frame_ = link_.TakeBuffer(std::max(bytes, kBatchRoomBytes));
  std::byte* at = frame_->room().data();
  RecordHeader header;
  header.bytes = static_cast<uint32_t>(bytes);
  header.call = call;
  header.flags = flags;
  header.serial = serial;
  std::memcpy(at, &header, sizeof(header));
  at += sizeof(header);
  if (!head.empty()) std::memcpy(at, head.data(), head.size());
  if (!tail.empty()) std::memcpy(at + head.size(), tail.data(), tail.size());
  size_t padding = bytes - sizeof(header) - body_bytes;
  if (padding != 0) std::memset(at + body_bytes, 0, padding);
  frame_->Commit(bytes);
}

void Outbox::FlushLocked() {
  if (frame_ == nullptr || frame_->records() == 0) return;
  // A failure means the link has ended: the session hears it from the link itself.
  (void)link_.SendFrame(std::move(frame_));
  frame_ = nullptr;
}

}  // namespace farcall::server
