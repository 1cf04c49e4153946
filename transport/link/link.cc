// SPDX-License-Identifier: Apache-2.0
// The link's public face. Its state is one object apart, so that a forked child can leave it behind
// whole.
#include "transport/link.h"

#include "transport/link/link_core.h"

namespace farcall {
namespace {

class LinkHandle final : public Link {
 public:
  LinkHandle(LinkObserver& observer, const LinkOptions& options, Reconnect reconnect)
      : core_(std::make_unique<LinkCore>(observer, options, std::move(reconnect))) {}

  void AttachLog(std::unique_ptr<Channel> channel, uint64_t seq, uint64_t chunks) override {
    core_->AttachLog(std::move(channel), seq, chunks);
  }
  void AttachLane(uint32_t lane, std::unique_ptr<Channel> channel) override {
    core_->AttachLane(lane, std::move(channel), 0);
  }
  Status OpenLanes() override { return core_->OpenLanes(); }
  uint64_t received_seq() const override { return core_->received_seq(); }
  std::unique_ptr<FrameBuffer> TakeBuffer(size_t capacity_bytes) override {
    return core_->TakeBuffer(capacity_bytes);
  }
  Status SendFrame(std::unique_ptr<FrameBuffer>&& frame) override {
    return core_->SendFrame(std::move(frame));
  }
  Status SendTransfer(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                      Retain retain, std::function<void()> done) override {
    return core_->SendTransfer(transfer, offset, bytes, retain, std::move(done));
  }
  uint64_t chunks_sent() const override { return core_->chunks_sent(); }
  uint64_t chunks_received() const override { return core_->chunks_received(); }
  Status WaitChunks(uint64_t seq, Clock::time_point deadline) override {
    return core_->WaitChunks(seq, deadline);
  }
  Status Pump(Clock::time_point deadline, int wake_fd) override {
    return core_->Pump(deadline, wake_fd);
  }
  void ExpectNews() override { core_->ExpectNews(); }
  bool CarriesDescriptors() const override { return core_->CarriesDescriptors(); }
  Status SendDescriptor(int descriptor) override { return core_->SendDescriptor(descriptor); }
  int TakeDescriptor() override { return core_->TakeDescriptor(); }
  size_t tail_bytes() const override { return core_->TailBytes(); }
  bool attached() const override { return core_->attached(); }
  Status closed() const override { return core_->Closed(); }
  void Close(const Status& why) override { core_->Close(why); }
  void Abandon() override {
    core_->Abandon();
    (void)core_.release();  // its locks may be held by threads that do not exist here
  }
  Counters counters() const override { return core_->counters(); }

 private:
  std::unique_ptr<LinkCore> core_;
};

}  // namespace

FrameBuffer::FrameBuffer(size_t capacity_bytes)
    : bytes_(std::make_unique_for_overwrite<std::byte[]>(sizeof(FrameHeader) + capacity_bytes)),
      capacity_(sizeof(FrameHeader) + capacity_bytes) {}

std::unique_ptr<Link> Link::Create(LinkObserver& observer, const LinkOptions& options,
                                   Reconnect reconnect) {
  return std::make_unique<LinkHandle>(observer, options, std::move(reconnect));
}

}  // namespace farcall
