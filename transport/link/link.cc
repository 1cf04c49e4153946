// SPDX-License-Identifier: Apache-2.0
// The link's public face: each call is its core's.
#include "transport/link.h"

#include "transport/link/link_core.h"

namespace farcall {

Link::Link(LinkObserver& observer, const LinkOptions& options, Reconnect reconnect)
    : core_(std::make_unique<LinkCore>(observer, options, std::move(reconnect))) {}

Link::~Link() = default;

void Link::AttachLog(std::unique_ptr<Channel> channel, uint64_t peer_received_seq,
                     uint64_t peer_received_chunks) {
  core_->AttachLog(std::move(channel), peer_received_seq, peer_received_chunks);
}

void Link::AttachLane(uint32_t lane, std::unique_ptr<Channel> channel) {
  core_->AttachLane(lane, std::move(channel), 0);
}

Status Link::OpenLanes() {
  return core_->OpenLanes();
}

uint64_t Link::received_seq() const {
  return core_->received_seq();
}

std::unique_ptr<FrameBuffer> Link::TakeBuffer(size_t capacity_bytes) {
  return core_->TakeBuffer(capacity_bytes);
}

Status Link::SendFrame(std::unique_ptr<FrameBuffer>&& frame) {
  return core_->SendFrame(std::move(frame));
}

Status Link::SendTransfer(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                          Retain retain, std::function<void()> done) {
  return core_->SendTransfer(transfer, offset, bytes, retain, std::move(done));
}

uint64_t Link::chunks_sent() const {
  return core_->chunks_sent();
}

uint64_t Link::chunks_received() const {
  return core_->chunks_received();
}

Status Link::WaitChunks(uint64_t seq, Clock::time_point deadline) {
  return core_->WaitChunks(seq, deadline);
}

Status Link::Pump(Clock::time_point deadline, int wake_fd) {
  return core_->Pump(deadline, wake_fd);
}

void Link::ExpectNews() {
  core_->ExpectNews();
}

bool Link::CarriesDescriptors() const {
  return core_->CarriesDescriptors();
}

Status Link::SendDescriptor(int descriptor) {
  return core_->SendDescriptor(descriptor);
}

int Link::TakeDescriptor() {
  return core_->TakeDescriptor();
}

size_t Link::tail_bytes() const {
  return core_->TailBytes();
}

bool Link::attached() const {
  return core_->attached();
}

Status Link::closed() const {
  return core_->Closed();
}

void Link::Close(const Status& why) {
  core_->Close(why);
}

void Link::Abandon() {
  core_->Abandon();
  (void)core_.release();  // its locks may be held by threads that do not exist here
}

Link::Counters Link::counters() const {
  return core_->counters();
}

FrameBuffer::FrameBuffer(size_t capacity_bytes)
    : bytes_(std::make_unique_for_overwrite<std::byte[]>(sizeof(FrameHeader) + capacity_bytes)),
      capacity_(sizeof(FrameHeader) + capacity_bytes) {}

}  // namespace farcall
