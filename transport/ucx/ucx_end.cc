// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_end.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/handshake/crypto.h"
#include "transport/poll.h"

namespace farcall {
namespace {

constexpr unsigned kDataMessage = 0x46, kCreditMessage = 0x47;
// Of a ring: long enough for a rendezvous to pay, short enough for several to be under way.
constexpr size_t kMaxPieceBytes = 256u << 10;
constexpr int kMaxTurns = 256;
constexpr auto kDrainLimit = std::chrono::milliseconds(100);
constexpr auto kCloseLimit = std::chrono::seconds(1);

std::string ReleaseText(uint16_t release) {
  return std::to_string(release / 256) + "." + std::to_string(release % 256);
}

}  // namespace

Result<FabricEndPointer> MakeUcxEnd(UcxContext& context, size_t window_bytes) {
  return UcxEnd::Make(context, window_bytes);
}

UcxEnd::UcxEnd(UcxContext& context, ucx::Worker worker, size_t window_bytes)
    : context_(context),
      api_(context.api()),
      worker_(worker),
      owner_(getpid()),
      window_(window_bytes) {}

Result<FabricEndPointer> UcxEnd::Make(UcxContext& context, size_t window_bytes) {
  const UcxApi& api = context.api();
  ucx::WorkerParams params;
  params.mask = ucx::WorkerParams::kThreadMode;
  params.thread_mode = ucx::WorkerParams::kSerialized;
  ucx::Worker worker = nullptr;
  ucx::StatusCode status = ucx::kOk;
  {
    std::lock_guard lock(context.workers());
    status = api.worker_create(context.handle(), &params, &worker);
  }
  if (status != ucx::kOk)
    return Status(Code::kUnavailable, "UCX has no worker: " + UcxError(api, status));
  std::unique_ptr<UcxEnd> end(new UcxEnd(context, worker, window_bytes));
  FARCALL_TRY(end->Prepare());
  return FabricEndPointer(std::move(end));
}

Status UcxEnd::Prepare() {
  FARCALL_TRY(receive_ring_.Map(window_.window_bytes()));
  FARCALL_TRY(SetHandler(kDataMessage, &UcxEnd::OnData));
  FARCALL_TRY(SetHandler(kCreditMessage, &UcxEnd::OnCredit));
  ucx::StatusCode status = api_.event_descriptor(worker_, &descriptor_);
  if (status != ucx::kOk)
    return {Code::kUnavailable, "UCX wakes nobody up: " + UcxError(api_, status)};
  ucx::Address* address = nullptr;
  size_t bytes = 0;
  status = api_.worker_address(worker_, &address, &bytes);
  if (status != ucx::kOk)
    return {Code::kUnavailable, "UCX has no address: " + UcxError(api_, status)};
  const auto* first = reinterpret_cast<const std::byte*>(address);
  if (bytes <= kMaxUcxAddressBytes) hello_.address.assign(first, first + bytes);
  api_.release_address(worker_, address);
  if (bytes > kMaxUcxAddressBytes) {
    return {Code::kUnavailable, "UCX's address has " + std::to_string(bytes) + " bytes, at most " +
                                    std::to_string(kMaxUcxAddressBytes) +
                                    " can be sent: choose devices by UCX_NET_DEVICES"};
  }
  hello_.release = UcxRelease(api_);
  hello_.window_bytes = static_cast<uint32_t>(window_.window_bytes());
  RandomBytes(hello_.key);
  return {};
}

Status UcxEnd::SetHandler(unsigned id, ucx::MessageCallback callback) {
  ucx::HandlerParams params;
  params.mask = ucx::HandlerParams::kId | ucx::HandlerParams::kFlags |
                ucx::HandlerParams::kCallback | ucx::HandlerParams::kArgument;
  params.id = id;
  params.flags = ucx::HandlerParams::kWholeMessage;
  params.callback = callback;
  params.argument = this;
  const ucx::StatusCode status = api_.set_handler(worker_, &params);
  return status == ucx::kOk
             ? Status()
             : Status(Code::kUnavailable, "UCX has no active messages: " + UcxError(api_, status));
}

Result<size_t> UcxEnd::HelloBytes(std::span<const std::byte> bytes) const {
  UcxHelloHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return UcxHelloBytes(header);
}

Status UcxEnd::Connect(std::span<const std::byte> hello) {
  Result<UcxHello> peer = DecodeUcxHello(hello);
  return peer.ok() ? ConnectTo(*peer) : peer.status();
}

Status UcxEnd::ConnectTo(const UcxHello& peer) {
  const UcxUse use;
  if (!use) return {Code::kUnavailable, "ucx: this process ends"};
  if (peer.release != hello_.release) {
    return {Code::kUnsupported, "ucx: the peer has UCX " + ReleaseText(peer.release) +
                                    ", this side " + ReleaseText(hello_.release) +
                                    ": install the same release on both sides"};
  }
  FARCALL_TRY(send_ring_.Map(peer.window_bytes));
  peer_key_ = peer.key;
  ucx::EndpointParams params;
  params.mask = ucx::EndpointParams::kAddress | ucx::EndpointParams::kErrorMode |
                ucx::EndpointParams::kErrorHandler;
  params.address = reinterpret_cast<const ucx::Address*>(peer.address.data());
  params.error_mode = ucx::EndpointParams::kPeerErrors;
  params.on_error = &UcxEnd::OnError;
  params.error_argument = this;
  const ucx::StatusCode status = api_.endpoint_create(worker_, &params, &endpoint_);
  if (status != ucx::kOk) {
    endpoint_ = nullptr;
    return {Code::kUnavailable, "UCX does not reach the peer: " + UcxError(api_, status) +
                                    "; UCX_TLS and UCX_NET_DEVICES must have something in common "
                                    "on both sides"};
  }
  SendCredit();  // of nothing: the peer hears that this side is reached
  return {};
}

UcxEnd::~UcxEnd() {
  const UcxUse use;
  if (is_forgotten_ || owner_ != getpid() || !use) {
    Forget();
    return;
  }
  CloseEndpoint();
  const Clock::time_point limit = Clock::now() + kCloseLimit;
  while (!IsIdle() && Clock::now() < limit) Turn();
  if (!IsIdle()) {
    Forget();
    return;
  }
  std::lock_guard lock(context_.workers());
  api_.worker_destroy(worker_);
}

void UcxEnd::Forget() {
  is_forgotten_ = true;
  send_ring_.Forget();
  receive_ring_.Forget();
}

void UcxEnd::CloseEndpoint() {
  if (endpoint_ == nullptr) return;
  if (failure_.ok()) Drain(Clock::now() + kDrainLimit);
  ucx::RequestParams params;
  params.mask = ucx::RequestParams::kFlags;
  params.flags = ucx::RequestParams::kCloseForce;
  ucx::Request request = api_.endpoint_close(endpoint_, &params);
  endpoint_ = nullptr;
  if (request == nullptr || ucx::IsError(request)) return;
  const Clock::time_point limit = Clock::now() + kCloseLimit;
  while (api_.request_status(request) == ucx::kInProgress && Clock::now() < limit) Turn();
  api_.request_free(request);
}

void UcxEnd::Turn() {
  Progress();
  if (Arm()) {
    pollfd fd{descriptor_, POLLIN, 0};
    PollUntil({&fd, 1}, Clock::now() + std::chrono::milliseconds(1));
  }
}

void UcxEnd::Drain(Clock::time_point deadline) {
  const UcxUse use;
  if (!use || endpoint_ == nullptr) return;
  const ucx::RequestParams params{};
  ucx::Request flush = api_.endpoint_flush(endpoint_, &params);
  const bool is_request = flush != nullptr && !ucx::IsError(flush);
  for (;;) {
    Progress();
    const bool is_flushed = !is_request || api_.request_status(flush) != ucx::kInProgress;
    if (!failure_.ok() || (is_flushed && outgoing_.empty()) || Clock::now() >= deadline) break;
    Turn();
  }
  if (is_request) api_.request_free(flush);
}

void UcxEnd::Fail(Status why) {
  if (failure_.ok()) failure_ = std::move(why);
}

Status UcxEnd::Lost(const char* doing, ucx::StatusCode status) const {
  return {Code::kDisconnected, std::string("ucx: ") + doing + ": " + UcxError(api_, status)};
}

void UcxEnd::Progress() {
  const UcxUse use;
  if (!use) return Fail({Code::kDisconnected, "ucx: this process ends"});
  for (int turn = 0; turn < kMaxTurns && api_.progress(worker_) != 0; ++turn) {
  }
  while (!outgoing_.empty() && outgoing_.front().is_done) {
    released_ = outgoing_.front().end_position;
    outgoing_.pop_front();
  }
  SendCreditIfDue();
}

bool UcxEnd::Arm() {
  const UcxUse use;
  if (!use) return true;
  const ucx::StatusCode status = api_.arm(worker_);
  if (status != ucx::kOk && status != ucx::kBusy) Fail(Lost("wait", status));
  return status == ucx::kOk;
}

// ---- the sender's

size_t UcxEnd::Room() const {
  if (endpoint_ == nullptr || !failure_.ok()) return 0;
  const uint64_t used = sent_ - std::min(peer_consumed_, released_);
  const size_t ring_bytes = send_ring_.bytes();
  return std::min({ring_bytes - static_cast<size_t>(used), ring_bytes - SendOffset(),
                   std::min(kMaxPieceBytes, ring_bytes / 4)});
}

void UcxEnd::Post(size_t bytes) {
  const UcxUse use;
  outgoing_.emplace_back();
  Outgoing& piece = outgoing_.back();
  piece.end = this;
  piece.header = {peer_key_, sent_};
  ucx::RequestParams params;
  params.mask = ucx::RequestParams::kCallback | ucx::RequestParams::kUserData;
  params.send = &UcxEnd::OnSent;
  params.user_data = &piece;
  const std::byte* memory = Memory();
  sent_ += bytes;
  piece.end_position = sent_;
  if (!use) {
    piece.is_done = true;
    return;
  }
  ++requests_;
  ucx::Request request = api_.send(endpoint_, kDataMessage, &piece.header, sizeof(piece.header),
                                   memory, bytes, &params);
  if (request == nullptr) {
    --requests_;
    piece.is_done = true;
  } else if (ucx::IsError(request)) {
    --requests_;
    piece.is_done = true;
    Fail(Lost("send", ucx::ErrorOf(request)));
  }
}

void UcxEnd::OnSent(ucx::Request request, ucx::StatusCode status, void* outgoing) {
  auto* piece = static_cast<Outgoing*>(outgoing);
  UcxEnd& end = *piece->end;
  --end.requests_;
  piece->is_done = true;
  if (status != ucx::kOk) end.Fail(end.Lost("send", status));
  end.api_.request_free(request);
}

ucx::StatusCode UcxEnd::OnCredit(void* self, const void* header, size_t header_bytes, void*, size_t,
                                 const ucx::ReceiveParams*) {
  auto& end = *static_cast<UcxEnd*>(self);
  UcxMessageHeader copy;
  if (end.HeaderOf(header, header_bytes, &copy) != nullptr) end.TakeCredit(copy.position);
  return ucx::kOk;
}

// Credits may overtake each other: an older one says nothing.
void UcxEnd::TakeCredit(uint64_t position) {
  if (position > sent_) {
    return Fail({Code::kMalformed, "ucx: the peer has read " + std::to_string(position) +
                                       " bytes of the stream, only " + std::to_string(sent_) +
                                       " were sent"});
  }
  peer_consumed_ = std::max(peer_consumed_, position);
}

// ---- the receiver's

const UcxMessageHeader* UcxEnd::HeaderOf(const void* header, size_t bytes, UcxMessageHeader* copy) {
  if (bytes != sizeof(*copy)) return nullptr;
  std::memcpy(copy, header, sizeof(*copy));
  uint8_t differs = 0;  // no byte of it shows in the time that this takes
  for (size_t i = 0; i < copy->key.size(); ++i)
    differs |= static_cast<uint8_t>(copy->key[i] ^ hello_.key[i]);
  has_heard_ |= differs == 0;
  return differs == 0 ? copy : nullptr;
}

ucx::StatusCode UcxEnd::OnData(void* self, const void* header, size_t header_bytes, void* data,
                               size_t bytes, const ucx::ReceiveParams* params) {
  auto& end = *static_cast<UcxEnd*>(self);
  const bool is_rendezvous = (params->attributes & ucx::ReceiveParams::kRendezvous) != 0;
  UcxMessageHeader copy;
  if (end.HeaderOf(header, header_bytes, &copy) == nullptr)
    return is_rendezvous ? ucx::kRejected : ucx::kOk;
  return end.TakeData(copy.position, data, bytes, is_rendezvous);
}

ucx::StatusCode UcxEnd::TakeData(uint64_t position, void* data, size_t bytes, bool is_rendezvous) {
  if (Status claimed = window_.Claim(position, bytes); !claimed.ok()) {
    Fail({claimed.code(), "ucx: " + claimed.message()});
    return is_rendezvous ? ucx::kRejected : ucx::kOk;
  }
  std::byte* into = receive_ring_.at(window_.OffsetOf(position));
  if (!is_rendezvous) {
    std::memcpy(into, data, bytes);
    window_.Land(position);
    return ucx::kOk;
  }
  auto* landing = new Landing{this, position};
  ucx::RequestParams params;
  params.mask = ucx::RequestParams::kCallback | ucx::RequestParams::kUserData;
  params.land = &UcxEnd::OnLanded;
  params.user_data = landing;
  ++requests_;
  ucx::Request request = api_.land(worker_, data, into, bytes, &params);
  if (request != nullptr && !ucx::IsError(request)) return ucx::kInProgress;
  --requests_;
  delete landing;
  if (request == nullptr)
    window_.Land(position);
  else
    Fail(Lost("receive", ucx::ErrorOf(request)));
  return ucx::kInProgress;  // it is UCX's own since the call, whatever came of it
}

void UcxEnd::OnLanded(ucx::Request request, ucx::StatusCode status, size_t, void* user_data) {
  const std::unique_ptr<Landing> landing(static_cast<Landing*>(user_data));
  UcxEnd& end = *landing->end;
  --end.requests_;
  if (status == ucx::kOk)
    end.window_.Land(landing->begin);
  else
    end.Fail(end.Lost("receive", status));
  end.api_.request_free(request);
}

void UcxEnd::OnError(void* self, ucx::Endpoint, ucx::StatusCode status) {
  auto& end = *static_cast<UcxEnd*>(self);
  end.Fail(end.Lost("connection", status));
}

std::span<const std::byte> UcxEnd::Readable() const {
  const size_t offset = window_.OffsetOf(window_.consumed());
  const uint64_t there = window_.arrived() - window_.consumed();
  const size_t to_end = window_.window_bytes() - offset;
  return {receive_ring_.at(offset), std::min(static_cast<size_t>(there), to_end)};
}

void UcxEnd::Consume(size_t bytes) {
  window_.Consume(bytes);
  SendCreditIfDue();
}

// A quarter of the window at a time: the sender never waits while there is more than that.
void UcxEnd::SendCreditIfDue() {
  if (window_.consumed() - told_consumed_ >= window_.window_bytes() / 4) TellAllRead();
}

void UcxEnd::SendCredit() {
  const UcxUse use;
  if (!use || is_credit_going_ || endpoint_ == nullptr || !failure_.ok()) return;
  told_consumed_ = window_.consumed();
  credit_ = {peer_key_, told_consumed_};
  ucx::RequestParams params;
  params.mask = ucx::RequestParams::kCallback | ucx::RequestParams::kUserData;
  params.send = &UcxEnd::OnCreditSent;
  params.user_data = this;
  ++requests_;
  is_credit_going_ = true;
  ucx::Request request =
      api_.send(endpoint_, kCreditMessage, &credit_, sizeof(credit_), nullptr, 0, &params);
  if (request == nullptr || ucx::IsError(request)) {
    --requests_;
    is_credit_going_ = false;
  }
  if (ucx::IsError(request)) Fail(Lost("send", ucx::ErrorOf(request)));
}

void UcxEnd::OnCreditSent(ucx::Request request, ucx::StatusCode status, void* self) {
  auto& end = *static_cast<UcxEnd*>(self);
  --end.requests_;
  end.is_credit_going_ = false;
  if (status != ucx::kOk) end.Fail(end.Lost("send", status));
  end.api_.request_free(request);
}

}  // namespace farcall
