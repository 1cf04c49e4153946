// SPDX-License-Identifier: Apache-2.0
// One end of a stream over UCX: a worker, an endpoint, a ring for each direction.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "proto/status.h"
#include "transport/fabric/stream_window.h"
#include "transport/ucx/ucx_api.h"
#include "transport/ucx/ucx_channel.h"
#include "transport/ucx/ucx_exchange.h"

namespace farcall {

//   Thread  one at a time, but for what Memory and Readable gave
class UcxEnd final : public FabricEnd {
 public:
  static Result<FabricEndPointer> Make(UcxContext& context, size_t window_bytes);
  // Lets what was posted go out for a moment. Memory that UCX may still touch is left behind.
  ~UcxEnd() override;
  UcxEnd(const UcxEnd&) = delete;
  UcxEnd& operator=(const UcxEnd&) = delete;

  const char* name() const override { return "ucx"; }
  std::vector<std::byte> Hello() const override { return Encode(hello_); }
  size_t hello_header_bytes() const override { return sizeof(UcxHelloHeader); }
  Result<size_t> HelloBytes(std::span<const std::byte> header) const override;
  // kUnavailable, kMalformed also where UCX takes no such address.
  Status Connect(std::span<const std::byte> hello) override;
  bool is_connected() const override { return endpoint_ != nullptr; }
  bool has_heard() const override { return has_heard_; }

  void Progress() override;
  int descriptor() const override { return descriptor_; }
  bool Arm() override;
  // UCX's descriptor does not tell of everything: UCX 1.13 over TCP left transfers lying now and
  // then until it was called again.
  std::chrono::milliseconds longest_sleep() const override { return std::chrono::milliseconds(50); }
  const Status& failure() const override { return failure_; }

  size_t Room() const override;
  std::byte* Memory() const override { return send_ring_.at(SendOffset()); }
  void Post(size_t bytes) override;
  uint64_t sent() const override { return sent_; }
  bool HasUnread() const override { return peer_consumed_ != sent_; }
  // Whether UCX has let go of all that was posted.
  bool IsIdle() const override { return outgoing_.empty() && requests_ == 0; }

  std::span<const std::byte> Readable() const override;
  bool HasReadable() const override { return window_.arrived() != window_.consumed(); }
  void Consume(size_t bytes) override;
  uint64_t arrived() const override { return window_.arrived(); }
  void TellAllRead() override {
    if (window_.consumed() != told_consumed_) SendCredit();
  }

  void Turn() override;
  void Drain(Clock::time_point deadline) override;
  void Forget() override;

 private:
  // A piece on its way. UCX reads the header until it is done.
  struct Outgoing {
    UcxEnd* end = nullptr;
    UcxMessageHeader header;
    uint64_t end_position = 0;
    bool is_done = false;
  };
  struct Landing {
    UcxEnd* end = nullptr;
    uint64_t begin = 0;
  };

  UcxEnd(UcxContext& context, ucx::Worker worker, size_t window_bytes);
  Status Prepare();
  void Fail(Status why);
  Status ConnectTo(const UcxHello& peer);
  Status SetHandler(unsigned id, ucx::MessageCallback callback);
  size_t SendOffset() const { return sent_ & (send_ring_.bytes() - 1); }
  void SendCreditIfDue();
  void SendCredit();
  void CloseEndpoint();
  Status Lost(const char* doing, ucx::StatusCode status) const;
  // The header of a message that the peer has sent; null: it is a stranger's.
  const UcxMessageHeader* HeaderOf(const void* header, size_t bytes, UcxMessageHeader* copy);
  ucx::StatusCode TakeData(uint64_t position, void* data, size_t bytes, bool is_rendezvous);
  void TakeCredit(uint64_t position);

  static ucx::StatusCode OnData(void* self, const void* header, size_t header_bytes, void* data,
                                size_t bytes, const ucx::ReceiveParams* params);
  static ucx::StatusCode OnCredit(void* self, const void* header, size_t header_bytes, void* data,
                                  size_t bytes, const ucx::ReceiveParams* params);
  static void OnSent(ucx::Request request, ucx::StatusCode status, void* outgoing);
  static void OnCreditSent(ucx::Request request, ucx::StatusCode status, void* self);
  static void OnLanded(ucx::Request request, ucx::StatusCode status, size_t bytes, void* landing);
  static void OnError(void* self, ucx::Endpoint endpoint, ucx::StatusCode status);

  UcxContext& context_;
  const UcxApi& api_;
  const ucx::Worker worker_;
  const pid_t owner_;
  bool is_forgotten_ = false;
  int descriptor_ = -1;
  ucx::Endpoint endpoint_ = nullptr;
  UcxHello hello_;
  Status failure_;
  size_t requests_ = 0;  // that UCX has not finished

  FabricRing send_ring_;
  UcxKey peer_key_{};
  uint64_t sent_ = 0, released_ = 0, peer_consumed_ = 0;
  std::deque<Outgoing> outgoing_;

  FabricRing receive_ring_;
  StreamWindow window_;
  uint64_t told_consumed_ = 0;
  UcxMessageHeader credit_;
  bool is_credit_going_ = false;
  bool has_heard_ = false;
};

}  // namespace farcall
