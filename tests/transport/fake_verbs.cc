// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/fake_verbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace farcall::test {
namespace {

struct Queue : ibv_cq {
  std::deque<ibv_wc> completions;
  bool is_armed = false;
};

struct Slot {
  uint64_t number = 0;
  std::byte* memory = nullptr;
  size_t bytes = 0;
};

struct Pair : ibv_qp {
  std::deque<Slot> slots;
  uint32_t target = 0;
  int rights = 0;
};

struct Region : ibv_mr {
  int rights = 0;
};

std::mutex g_mutex;  // of all below, and of every memory that a card touches
// A thread that outlives main uses them.
std::map<uint32_t, Pair*>& g_pairs = *new std::map<uint32_t, Pair*>;
std::map<uint32_t, Region*>& g_regions = *new std::map<uint32_t, Region*>;
uint32_t g_next_pair = 17, g_next_key = 1000;
ibv_context g_context{};
ibv_pd g_domain{};

ibv_device* Device() {
  static ibv_device device{};
  return &device;
}
ibv_device** GetList(int* count) {
  static ibv_device* list[] = {Device(), nullptr};
  *count = 1;
  return list;
}
ibv_context* Open(ibv_device* device) {
  g_context.device = device;
  return &g_context;
}
int QueryDevice(ibv_context*, ibv_device_attr* attributes) {
  attributes->phys_port_cnt = 1;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 4;
  return 0;
}
int QueryPort(ibv_context*, uint8_t port, ibv_port_attr* attributes) {
  if (port != 1) return EINVAL;
  attributes->state = IBV_PORT_ACTIVE;
  attributes->active_mtu = IBV_MTU_1024;
  attributes->gid_tbl_len = 2;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
int QueryGid(ibv_context*, uint8_t, int index, ibv_gid* gid) {
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  const uint8_t local[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  std::memcpy(gid->raw, index == 1 ? mapped : local, 16);
  return index < 2 ? 0 : EINVAL;
}

ibv_mr* Register(ibv_pd*, void* memory, size_t bytes, int rights) {
  std::lock_guard lock(g_mutex);
  auto* region = new Region;
  region->addr = memory;
  region->length = bytes;
  region->lkey = region->rkey = g_next_key += 7;
  region->rights = rights;
  g_regions[region->rkey] = region;
  return region;
}
int Deregister(ibv_mr* mr) {
  std::lock_guard lock(g_mutex);
  g_regions.erase(mr->rkey);
  delete static_cast<Region*>(mr);
  return 0;
}
// Whether the memory is registered with these rights.
bool Holds(uint32_t key, uint64_t address, size_t bytes, int rights) {
  const auto found = g_regions.find(key);
  if (found == g_regions.end()) return false;
  const auto first = reinterpret_cast<uint64_t>(found->second->addr);
  return (found->second->rights & rights) == rights && address >= first &&
         bytes <= found->second->length && address - first <= found->second->length - bytes;
}

ibv_comp_channel* CreateChannel(ibv_context*) {
  auto* channel = new ibv_comp_channel{};
  channel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  return channel;
}
int DestroyChannel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete channel;
  return 0;
}
ibv_cq* CreateQueue(ibv_context*, int, void*, ibv_comp_channel* channel, int) {
  auto* queue = new Queue{};
  queue->channel = channel;
  return queue;
}
int DestroyQueue(ibv_cq* queue) {
  delete static_cast<Queue*>(queue);
  return 0;
}
int GetEvent(ibv_comp_channel* channel, ibv_cq** queue, void**) {
  eventfd_t value = 0;
  *queue = nullptr;
  return eventfd_read(channel->fd, &value);
}

void Complete(ibv_cq* cq, uint64_t number, ibv_wc_status status, size_t bytes) {
  auto& queue = *static_cast<Queue*>(cq);
  ibv_wc completion{};
  completion.wr_id = number;
  completion.status = status;
  completion.byte_len = static_cast<uint32_t>(bytes);
  queue.completions.push_back(completion);
  if (queue.is_armed) {
    queue.is_armed = false;
    eventfd_write(queue.channel->fd, 1);
  }
}
void Break(Pair* pair) {
  pair->state = IBV_QPS_ERR;
  for (const Slot& slot : pair->slots) Complete(pair->recv_cq, slot.number, IBV_WC_WR_FLUSH_ERR, 0);
  pair->slots.clear();
}

ibv_qp* CreatePair(ibv_pd*, ibv_qp_init_attr* attributes) {
  std::lock_guard lock(g_mutex);
  auto* pair = new Pair{};
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  pair->qp_num = g_next_pair++;
  attributes->cap.max_inline_data = 64;
  g_pairs[pair->qp_num] = pair;
  return pair;
}
int DestroyPair(ibv_qp* qp) {
  std::lock_guard lock(g_mutex);
  g_pairs.erase(qp->qp_num);
  delete static_cast<Pair*>(qp);
  return 0;
}
int Modify(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  std::lock_guard lock(g_mutex);
  auto* pair = static_cast<Pair*>(qp);
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
    pair->rights = static_cast<int>(attributes->qp_access_flags);
  if ((mask & IBV_QP_DEST_QPN) != 0) pair->target = attributes->dest_qp_num;
  pair->state = attributes->qp_state;
  return 0;
}

ibv_wc_status Message(Pair* target, const std::vector<std::byte>& bytes) {
  if (target->slots.empty()) return IBV_WC_RNR_RETRY_EXC_ERR;
  const Slot slot = target->slots.front();
  if (bytes.size() > slot.bytes) {
    Break(target);
    return IBV_WC_REM_INV_REQ_ERR;
  }
  target->slots.pop_front();
  std::copy(bytes.begin(), bytes.end(), slot.memory);
  Complete(target->recv_cq, slot.number, IBV_WC_SUCCESS, bytes.size());
  return IBV_WC_SUCCESS;
}

ibv_wc_status Carry(Pair* pair, const ibv_send_wr& request) {
  const auto found = g_pairs.find(pair->target);
  if (found == g_pairs.end() ||
      (found->second->state != IBV_QPS_RTR && found->second->state != IBV_QPS_RTS))
    return IBV_WC_RETRY_EXC_ERR;
  Pair* target = found->second;
  const bool is_read = request.opcode == IBV_WR_RDMA_READ;
  std::vector<std::byte> bytes;
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& part = request.sg_list[i];
    if ((request.send_flags & IBV_SEND_INLINE) == 0 &&
        !Holds(part.lkey, part.addr, part.length, is_read ? IBV_ACCESS_LOCAL_WRITE : 0))
      return IBV_WC_LOC_PROT_ERR;
    const auto* memory = reinterpret_cast<const std::byte*>(part.addr);
    bytes.insert(bytes.end(), memory, memory + part.length);
  }
  if (request.opcode == IBV_WR_SEND) return Message(target, bytes);
  const int rights = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  if ((target->rights & rights) == 0 ||
      !Holds(request.wr.rdma.rkey, request.wr.rdma.remote_addr, bytes.size(), rights))
    return IBV_WC_REM_ACCESS_ERR;
  auto* there = reinterpret_cast<std::byte*>(request.wr.rdma.remote_addr);
  auto* here = reinterpret_cast<std::byte*>(request.sg_list[0].addr);
  std::memcpy(is_read ? here : there, is_read ? there : here, bytes.size());
  return IBV_WC_SUCCESS;
}

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr**) {
  std::lock_guard lock(g_mutex);
  auto* pair = static_cast<Pair*>(qp);
  if (pair->state != IBV_QPS_RTS && pair->state != IBV_QPS_ERR) return EINVAL;
  const ibv_wc_status status =
      pair->state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : Carry(pair, *request);
  Complete(pair->send_cq, request->wr_id, status, 0);
  if (status != IBV_WC_SUCCESS && pair->state != IBV_QPS_ERR) Break(pair);
  return 0;
}
int PostReceive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr**) {
  std::lock_guard lock(g_mutex);
  auto* pair = static_cast<Pair*>(qp);
  const ibv_sge& part = request->sg_list[0];
  if (pair->state == IBV_QPS_ERR) {
    Complete(pair->recv_cq, request->wr_id, IBV_WC_WR_FLUSH_ERR, 0);
    return 0;
  }
  if (!Holds(part.lkey, part.addr, part.length, IBV_ACCESS_LOCAL_WRITE)) return EINVAL;
  pair->slots.push_back({request->wr_id, reinterpret_cast<std::byte*>(part.addr), part.length});
  return 0;
}
int Poll(ibv_cq* cq, int count, ibv_wc* completions) {
  std::lock_guard lock(g_mutex);
  auto& queue = *static_cast<Queue*>(cq);
  int taken = 0;
  while (taken < count && !queue.completions.empty()) {
    completions[taken++] = queue.completions.front();
    queue.completions.pop_front();
  }
  return taken;
}
int Arm(ibv_cq* cq, int) {
  std::lock_guard lock(g_mutex);
  static_cast<Queue*>(cq)->is_armed = true;
  return 0;
}

}  // namespace

VerbsApi FakeVerbs() {
  VerbsApi api;
  api.get_device_list = &GetList;
  api.free_device_list = [](ibv_device**) {};
  api.get_device_name = [](ibv_device*) { return "fake0"; };
  api.open_device = &Open;
  api.close_device = [](ibv_context*) { return 0; };
  api.query_device = &QueryDevice;
  api.query_port = &QueryPort;
  api.query_gid = &QueryGid;
  api.is_fork_initialized = [] { return int{IBV_FORK_UNNEEDED}; };
  api.fork_init = [] { return 0; };
  api.wc_status_str = [](ibv_wc_status status) {
    return status == IBV_WC_WR_FLUSH_ERR ? "Work Request Flushed Error" : "an error of the fake";
  };
  api.alloc_pd = [](ibv_context*) { return &g_domain; };
  api.dealloc_pd = [](ibv_pd*) { return 0; };
  api.reg_mr = &Register;
  api.dereg_mr = &Deregister;
  api.create_comp_channel = &CreateChannel;
  api.destroy_comp_channel = &DestroyChannel;
  api.create_cq = &CreateQueue;
  api.destroy_cq = &DestroyQueue;
  api.get_cq_event = &GetEvent;
  api.ack_cq_events = [](ibv_cq*, unsigned) {};
  api.create_qp = &CreatePair;
  api.modify_qp = &Modify;
  api.destroy_qp = &DestroyPair;
  api.post_send = &PostSend;
  api.post_recv = &PostReceive;
  api.poll_cq = &Poll;
  api.req_notify_cq = &Arm;
  return api;
}

}  // namespace farcall::test
