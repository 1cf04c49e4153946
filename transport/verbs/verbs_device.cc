// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_device.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace farcall {
namespace {

constexpr int kMaxReads = 16;
constexpr uint32_t kRoce2 = IBV_GID_TYPE_ROCE_V2;
constexpr char kHow[] = "choose another by --verbs DEVICE[:PORT[:GID]], or FARCALL_VERBS_DEVICE";

Status Missing(const std::string& what) {
  return {Code::kUnavailable, "verbs: " + what};
}

std::string GidText(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET6, gid.raw, text.data(), text.size()) == nullptr ? "?" : text.data();
}

bool IsZero(const ibv_gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw),
                     [](uint8_t byte) { return byte == 0; });
}

// How well a GID of Ethernet's serves: one that routers know, of RoCE 2, an IPv4 address at best.
int Rank(const ibv_gid& gid, bool is_roce2) {
  const bool is_v4 = std::all_of(gid.raw, gid.raw + 10, [](uint8_t byte) { return byte == 0; }) &&
                     gid.raw[10] == 0xff && gid.raw[11] == 0xff;
  const bool is_local = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
  return (is_roce2 ? 4 : 0) + (is_v4 ? 2 : is_local ? 0 : 1);
}

}  // namespace

Status CannotRegister(size_t bytes, int error) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string may = limit.rlim_cur == RLIM_INFINITY
                              ? std::string("without limit")
                              : std::to_string(limit.rlim_cur >> 10) + " KiB";
  return Missing(std::to_string(bytes >> 10) +
                 " KiB of memory cannot be registered with the card: " + strerror(error) +
                 "; this process may lock " + may +
                 ": raise it (ulimit -l unlimited, LimitMEMLOCK=infinity of a service)");
}

VerbsDevice::VerbsDevice(const VerbsApi& api) : api_(api), owner_(getpid()) {}

Result<std::unique_ptr<VerbsDevice>> VerbsDevice::Open(const VerbsApi& api,
                                                       const VerbsChoice& choice) {
  // Pages of the card's own queues, which a child would otherwise share until one of both writes.
  if (api.is_fork_initialized == nullptr || api.is_fork_initialized() != IBV_FORK_UNNEEDED)
    (void)api.fork_init();
  std::unique_ptr<VerbsDevice> device(new VerbsDevice(api));
  FARCALL_TRY(device->OpenNamed(choice));
  FARCALL_TRY(device->ChoosePort(choice));
  FARCALL_TRY(device->ChooseGid(choice));
  device->domain_ = api.alloc_pd(device->context_);
  if (device->domain_ == nullptr)
    return Missing(device->name_ + " takes no protection domain: " + strerror(errno));
  device->text_ = device->name_ + ":" + std::to_string(device->port_) + ":" +
                  std::to_string(device->gid_index_) + " (" + GidText(device->gid_) + ")";
  return device;
}

VerbsDevice::~VerbsDevice() {
  if (owner_ != getpid()) return;
  if (domain_ != nullptr) api_.dealloc_pd(domain_);
  if (context_ != nullptr) api_.close_device(context_);
}

Status VerbsDevice::OpenNamed(const VerbsChoice& choice) {
  int count = 0;
  ibv_device** const list = api_.get_device_list(&count);
  if (list == nullptr || count == 0) {
    const int error = list == nullptr ? errno : 0;
    if (list != nullptr) api_.free_device_list(list);
    return Missing("no RDMA device is here" +
                   (error == 0 || error == ENOSYS ? "" : ": " + std::string(strerror(error))) +
                   "; `ibv_devices` lists them, a container needs /dev/infiniband");
  }
  Status failed;
  std::string names;
  for (int i = 0; i < count && context_ == nullptr; ++i) {
    const std::string name = api_.get_device_name(list[i]);
    names += (i == 0 ? "" : ", ") + name;
    if (!choice.device.empty() && name != choice.device) continue;
    name_ = name;
    context_ = api_.open_device(list[i]);
    if (context_ == nullptr) {
      failed = Missing(name + " cannot be opened: " + strerror(errno) +
                       "; this user needs to read and write /dev/infiniband/uverbs*");
      continue;
    }
    // Where none is named, one without an active port is passed over.
    if (choice.device.empty()) {
      if (failed = ChoosePort(choice); !failed.ok())
        api_.close_device(std::exchange(context_, nullptr));
    }
  }
  api_.free_device_list(list);
  if (context_ != nullptr) return {};
  return failed.ok() ? Missing("no RDMA device " + choice.device + " is here; there are: " + names)
                     : failed;
}

Status VerbsDevice::ChoosePort(const VerbsChoice& choice) {
  ibv_device_attr device{};
  if (const int error = api_.query_device(context_, &device); error != 0)
    return Missing(name_ + " cannot be asked: " + strerror(error));
  const int ports = device.phys_port_cnt;
  if (choice.port > ports) {
    return Missing(name_ + " has no port " + std::to_string(choice.port) + ", only 1 to " +
                   std::to_string(ports) + "; " + kHow);
  }
  const int first = choice.port == 0 ? 1 : choice.port, last = choice.port == 0 ? ports : first;
  for (int port = first; port <= last; ++port) {
    attributes_ = {};
    if (api_.query_port(context_, static_cast<uint8_t>(port), &attributes_) == 0 &&
        attributes_.state == IBV_PORT_ACTIVE) {
      port_ = static_cast<uint8_t>(port);
      const int reads = std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom);
      reads_ = static_cast<uint8_t>(std::clamp(reads, 1, kMaxReads));
      return {};
    }
  }
  return Missing(name_ +
                 (choice.port == 0 ? " has no active port"
                                   : ": port " + std::to_string(choice.port) + " is not active") +
                 "; `ibv_devinfo` shows their states; " + kHow);
}

Status VerbsDevice::ChooseGid(const VerbsChoice& choice) {
  int best = -1, rank = -1;
  const int first = choice.gid >= 0 ? choice.gid : 0;
  const int last = choice.gid >= 0 ? choice.gid : attributes_.gid_tbl_len - 1;
  for (int index = first; index <= std::min(last, 255); ++index) {
    ibv_gid gid{};
    bool is_roce2 = false;
    ibv_gid_entry entry{};
    if (api_.query_gid_entry != nullptr &&
        api_.query_gid_entry(context_, port_, static_cast<uint32_t>(index), &entry, 0,
                             sizeof(entry)) == 0) {
      gid = entry.gid;
      is_roce2 = entry.gid_type == kRoce2;
    } else if (api_.query_gid(context_, port_, index, &gid) != 0) {
      continue;
    }
    if (IsZero(gid)) continue;
    // InfiniBand's own have no types; the first is the port's.
    const int this_rank = is_ethernet() ? Rank(gid, is_roce2) : 0;
    if (this_rank > rank) {
      best = index;
      rank = this_rank;
      gid_ = gid;
    }
  }
  if (best < 0) {
    return Missing(
        name_ + ", port " + std::to_string(port_) +
        (choice.gid >= 0 ? ": GID " + std::to_string(choice.gid) + " is empty" : " has no GID") +
        (is_ethernet() ? "; its network interface needs an address; " : "; ") + kHow);
  }
  gid_index_ = static_cast<uint8_t>(best);
  return {};
}

}  // namespace farcall
