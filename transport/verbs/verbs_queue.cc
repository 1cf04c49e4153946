// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "proto/handshake/crypto.h"

namespace farcall {
namespace {

constexpr uint32_t kInlineBytes = 256;  // asked for; cards that give none take part all the same
// A lost packet is sent again after 4.096 us * 2^16 = 0.27 s, 7 times: short breaks of a link pass.
constexpr uint8_t kTimeout = 16, kRetries = 7;
// A peer without a slot is asked again after 0.64 ms, 6 times. Those who count credits never are.
constexpr uint8_t kNotReadyTimer = 12, kNotReadyRetries = 6;
constexpr uint8_t kHops = 64;

Status Unavailable(const std::string& what, int error) {
  return {Code::kUnavailable, "verbs: " + what + ": " + strerror(error)};
}
Status Lost(const std::string& what) {
  return {Code::kDisconnected, "verbs: " + what};
}

}  // namespace

VerbsBuffer::~VerbsBuffer() {
  if (region_ != nullptr && api_->dereg_mr(region_) != 0) memory_.Forget();
}

Status VerbsBuffer::Map(VerbsDevice& device, size_t bytes, int access) {
  FARCALL_TRY(memory_.Map(bytes));
  api_ = &device.api();
  region_ = api_->reg_mr(device.domain(), memory_.at(0), bytes, access);
  return region_ == nullptr ? CannotRegister(bytes, errno) : Status();
}

void VerbsBuffer::Forget() {
  region_ = nullptr;
  memory_.Forget();
}

VerbsQueue::VerbsQueue(VerbsDevice& device, const VerbsQueueLimits& limits)
    : device_(device), api_(device.api()), limits_(limits), owner_(getpid()) {}

Result<std::unique_ptr<VerbsQueue>> VerbsQueue::Make(VerbsDevice& device,
                                                     const VerbsQueueLimits& limits) {
  std::unique_ptr<VerbsQueue> queue(new VerbsQueue(device, limits));
  FARCALL_TRY(queue->Prepare());
  return queue;
}

Status VerbsQueue::Prepare() {
  FARCALL_TRY(
      slots_.Map(device_, size_t{limits_.slots} * limits_.slot_bytes, IBV_ACCESS_LOCAL_WRITE));
  FARCALL_TRY(messages_.Map(device_, limits_.sends * sizeof(VerbsMessage), IBV_ACCESS_LOCAL_WRITE));
  channel_ = api_.create_comp_channel(device_.context());
  if (channel_ == nullptr) return Unavailable("no completion channel", errno);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  // Whatever is posted fits in: it is never overrun.
  completions_ = api_.create_cq(device_.context(), static_cast<int>(limits_.sends + limits_.slots),
                                nullptr, channel_, 0);
  if (completions_ == nullptr) return Unavailable("no completion queue", errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions_;
  wanted.qp_type = IBV_QPT_RC;
  wanted.sq_sig_all = 1;
  wanted.cap.max_send_wr = limits_.sends;
  wanted.cap.max_recv_wr = limits_.slots;
  wanted.cap.max_send_sge = 2;
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = kInlineBytes;
  pair_ = api_.create_qp(device_.domain(), &wanted);
  if (pair_ == nullptr) {  // a card without so much inline, or none
    wanted.cap.max_inline_data = 0;
    pair_ = api_.create_qp(device_.domain(), &wanted);
  }
  if (pair_ == nullptr) return Unavailable("no queue pair", errno);
  inline_bytes_ = wanted.cap.max_inline_data;
  std::array<uint8_t, 3> random{};
  RandomBytes(random);
  first_packet_ = static_cast<uint32_t>(random[0] | random[1] << 8 | random[2] << 16);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.port();
  attributes.qp_access_flags =
      limits_.is_reached ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0;
  const int error = api_.modify_qp(
      pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) return Unavailable("the queue pair does not begin", error);
  // Before the peer knows of this side: it never finds it without a slot.
  for (uint32_t i = 0; i < limits_.slots; ++i) FARCALL_TRY(PostSlot());
  return {};
}

VerbsQueue::~VerbsQueue() {
  if (is_forgotten_ || owner_ != getpid()) {
    Forget();
    return;
  }
  if (pair_ != nullptr && api_.destroy_qp(pair_) != 0) {
    Forget();  // it may still be at work
    return;
  }
  if (completions_ != nullptr) api_.destroy_cq(completions_);
  if (channel_ != nullptr) api_.destroy_comp_channel(channel_);
}

void VerbsQueue::Forget() {
  is_forgotten_ = true;
  slots_.Forget();
  messages_.Forget();
}

Status VerbsQueue::Connect(const VerbsHello& peer) {
  if ((peer.is_ethernet != 0) != device_.is_ethernet()) {
    return {Code::kUnavailable, std::string("verbs: the peer's card is on ") +
                                    (peer.is_ethernet != 0 ? "Ethernet" : "InfiniBand") +
                                    ", this side's on the other: choose cards of one network by "
                                    "--verbs and FARCALL_VERBS_DEVICE"};
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu =
      static_cast<ibv_mtu>(std::min<int>(peer.mtu, device_.port_attributes().active_mtu));
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = device_.reads();
  attributes.min_rnr_timer = kNotReadyTimer;
  attributes.ah_attr.port_num = device_.port();
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.is_global = 1;
  std::memcpy(attributes.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  attributes.ah_attr.grh.sgid_index = device_.gid_index();
  attributes.ah_attr.grh.hop_limit = kHops;
  int error = api_.modify_qp(pair_, &attributes,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) {
    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = kTimeout;
    attributes.retry_cnt = kRetries;
    attributes.rnr_retry = kNotReadyRetries;
    attributes.sq_psn = first_packet_;
    attributes.max_rd_atomic = std::min(device_.reads(), peer.reads);
    error = api_.modify_qp(pair_, &attributes,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error != 0) return Unavailable(device_.text() + " does not reach the peer's card", error);
  return {};
}

// Each direction completes in the order in which it was posted. One that is missing, or that comes
// twice, is a fault of the card or its driver: nothing of this connection is believed after it.
Result<std::optional<VerbsDone>> VerbsQueue::Next() {
  if (found_next_ == found_count_) {
    const int count = api_.poll_cq(completions_, static_cast<int>(found_.size()), found_.data());
    if (count < 0 || count > static_cast<int>(found_.size()))
      return Lost("the completion queue has failed or was overrun");
    found_count_ = static_cast<size_t>(count);
    found_next_ = 0;
    if (count == 0) return std::optional<VerbsDone>();
  }
  const ibv_wc& completion = found_[found_next_++];
  const bool is_message = (completion.wr_id & 1) != 0;
  const uint64_t number = completion.wr_id >> 1, expected = is_message ? slots_taken_ : completed_;
  if (number != expected)
    return Lost(number < expected ? "a completion came twice" : "a completion was lost");
  if (number >= (is_message ? slots_posted_ : posted_))
    return Lost("a completion came of what was not posted");
  if (completion.status != IBV_WC_SUCCESS) return Explain(completion);
  VerbsDone done;
  done.is_message = is_message;
  if (is_message) {
    done.slot = number % limits_.slots;
    done.bytes = std::min<size_t>(completion.byte_len, limits_.slot_bytes);
    ++slots_taken_;
  } else {
    done.ticket = number;
    ++completed_;
  }
  return std::optional<VerbsDone>(done);
}

Status VerbsQueue::Explain(const ibv_wc& completion) const {
  const std::string text = api_.wc_status_str(completion.status);
  switch (completion.status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return {Code::kMalformed,
              "verbs: the peer's memory is not where it said, or is not offered: " + text};
    case IBV_WC_LOC_LEN_ERR:
      return {Code::kMalformed, "verbs: the peer sends more than a slot holds: " + text};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {Code::kMalformed, "verbs: the peer takes no message that it has room for: " + text};
    case IBV_WC_RETRY_EXC_ERR:
      return Lost("the peer's card does not answer: " + text);
    default:
      return Lost("the connection has failed: " + text);
  }
}

Status VerbsQueue::Arm() {
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  while (api_.get_cq_event(channel_, &queue, &user) == 0) api_.ack_cq_events(queue, 1);
  const int error = api_.req_notify_cq(completions_, 0);
  return error == 0 ? Status() : Lost(std::string("the card wakes nobody up: ") + strerror(error));
}

Result<uint64_t> VerbsQueue::Post(ibv_send_wr* request) {
  request->wr_id = posted_ << 1;
  ibv_send_wr* bad = nullptr;
  if (const int error = api_.post_send(pair_, request, &bad); error != 0)
    return Lost(std::string("the card takes no request: ") + strerror(error));
  return posted_++;
}

Result<uint64_t> VerbsQueue::Send(const VerbsMessage& message, const std::byte* bytes,
                                  uint32_t bytes_key) {
  std::byte* header = messages_.at((posted_ % limits_.sends) * sizeof(message));
  std::memcpy(header, &message, sizeof(message));
  const uint32_t count = bytes == nullptr ? 0 : message.bytes;
  ibv_sge parts[2] = {{reinterpret_cast<uint64_t>(header), sizeof(message), messages_.local_key()},
                      {reinterpret_cast<uint64_t>(bytes), count, bytes_key}};
  ibv_send_wr request{};
  request.sg_list = parts;
  request.num_sge = count == 0 ? 1 : 2;
  request.opcode = IBV_WR_SEND;
  VerbsCounts& counts = device_.counts();
  if (sizeof(message) + count <= inline_bytes_) {
    request.send_flags = IBV_SEND_INLINE;
    ++counts.inline_sends;
  }
  ++counts.sends;
  counts.send_bytes += count;
  return Post(&request);
}

Result<uint64_t> VerbsQueue::Read(std::byte* into, uint32_t into_key, size_t bytes,
                                  const VerbsMemory& from, size_t offset) {
  ibv_sge part{reinterpret_cast<uint64_t>(into), static_cast<uint32_t>(bytes), into_key};
  ibv_send_wr request{};
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = from.address + offset;
  request.wr.rdma.rkey = from.key;
  ++device_.counts().reads;
  device_.counts().read_bytes += bytes;
  return Post(&request);
}

Result<uint64_t> VerbsQueue::Write(const std::byte* bytes, uint32_t bytes_key, size_t count,
                                   const VerbsMemory& to, size_t offset) {
  ibv_sge part{reinterpret_cast<uint64_t>(bytes), static_cast<uint32_t>(count), bytes_key};
  ibv_send_wr request{};
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = to.address + offset;
  request.wr.rdma.rkey = to.key;
  ++device_.counts().writes;
  device_.counts().write_bytes += count;
  return Post(&request);
}

std::span<const std::byte> VerbsQueue::Slot(size_t slot) const {
  return {slots_.at(slot * limits_.slot_bytes), limits_.slot_bytes};
}

Status VerbsQueue::PostSlot() {
  ibv_sge part{
      reinterpret_cast<uint64_t>(slots_.at(slots_posted_ % limits_.slots * limits_.slot_bytes)),
      limits_.slot_bytes, slots_.local_key()};
  ibv_recv_wr request{};
  request.wr_id = slots_posted_ << 1 | 1;
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int error = api_.post_recv(pair_, &request, &bad); error != 0)
    return Lost(std::string("the card takes no slot: ") + strerror(error));
  ++slots_posted_;
  return {};
}

}  // namespace farcall
