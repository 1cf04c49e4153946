// SPDX-License-Identifier: Apache-2.0
// One end of a stream over UCX: a worker, an endpoint, a ring for each direction. It knows no
// socket and does not wait; ucx_channel.cc does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "proto/status.h"
#include "transport/ucx/stream_window.h"
#include "transport/ucx/ucx_api.h"
#include "transport/ucx/ucx_channel.h"
#include "transport/ucx/ucx_exchange.h"

namespace farcall {

//   Thread  one at a time, but for what Memory and Readable gave
class UcxEnd {
 public:
  static Result<UcxEndPointer> Make(UcxContext& context, size_t window_bytes);
  // Lets what was posted go out for a moment. Memory that UCX may still touch is left behind.
  ~UcxEnd();
  UcxEnd(const UcxEnd&) = delete;
  UcxEnd& operator=(const UcxEnd&) = delete;

  // What the peer has to know.
  const UcxHello& hello() const { return hello_; }
  //   Errors  kUnavailable, kMalformed: UCX takes no such address
  Status Connect(const UcxHello& peer);
  bool is_connected() const { return endpoint_ != nullptr; }
  // A message of the peer's has come by UCX, so both reach each other.
  bool has_heard() const { return has_heard_; }

  // Takes what has come, sends what is due.
  void Progress();
  // Readable when there may be something to take. True: it will be for whatever comes from now on;
  // false: something has come already.
  int descriptor() const { return descriptor_; }
  bool Arm();
  // Not ok: the stream has ended, or the peer broke the protocol.
  const Status& failure() const { return failure_; }
  void Fail(Status why);

  // How many bytes may be put there and posted now; 0 until there is room.
  size_t Room() const;
  std::byte* Memory() const { return send_ring_.at(SendOffset()); }
  void Post(size_t bytes);
  uint64_t sent() const { return sent_; }
  // Whether the peer may still need this side for what was posted.
  bool HasUnread() const { return peer_consumed_ != sent_; }
  // Whether UCX has let go of all of it.
  bool IsIdle() const { return outgoing_.empty() && requests_ == 0; }

  // The next bytes of the stream that are here, until Consume.
  std::span<const std::byte> Readable() const;
  bool HasReadable() const { return window_.arrived() != window_.consumed(); }
  void Consume(size_t bytes);
  uint64_t arrived() const { return window_.arrived(); }
  // Tells the peer all that was read, which it is otherwise told now and then.
  void TellAllRead() {
    if (window_.consumed() != told_consumed_) {
      SendCredit();
    }
  }

  // Progress, and where nothing came a millisecond's sleep: for loops that end by a limit.
  void Turn();
  // Until all that was posted has left this process, or the time is over.
  void Drain(Clock::time_point deadline);
  // In a forked child: UCX must not be touched any more.
  void Forget();

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

  UcxRing send_ring_;
  UcxKey peer_key_{};
  uint64_t sent_ = 0, released_ = 0, peer_consumed_ = 0;
  std::deque<Outgoing> outgoing_;

  UcxRing receive_ring_;
  StreamWindow window_;
  uint64_t told_consumed_ = 0;
  UcxMessageHeader credit_;
  bool is_credit_going_ = false;
  bool has_heard_ = false;
};

}  // namespace farcall
