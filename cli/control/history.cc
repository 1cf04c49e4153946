// SPDX-License-Identifier: Apache-2.0
#include "cli/control/history.h"

#include <algorithm>
#include <utility>

#include "settings/milli.h"

namespace farcall::cli {

namespace {

constexpr size_t kMaxKept = 64;
constexpr uint64_t kMsPerSecond = 1000;

std::string NameOf(const std::string& host, const std::string& vgpu) {
  return host + "\n" + vgpu;
}

std::string NameOf(const std::string& host, const std::string& vgpu, uint32_t device) {
  return NameOf(host, vgpu) + "\n" + std::to_string(device);
}

}  // namespace

uint32_t MilliOf(const pb::ServerStatus& status, const pb::Device& device) {
  if (device.busy_ns() != 0) return device.busy_milli();
  uint32_t used = 0;  // an older server says of its vGPUs only, which may have overlapped
  for (const pb::Vgpu& vgpu : status.vgpus())
    for (const pb::VgpuDevice& one : vgpu.devices())
      if (one.device() == device.index()) used += one.share_got_milli();
  return std::min(used, kWholeMilli);
}

void History::Add(const std::vector<Shown>& hosts) {
  Series before = std::move(shares_);
  std::map<std::string, Net> nets_before = std::move(nets_);
  shares_.clear();
  nets_.clear();
  auto add = [&](const std::string& name, uint32_t milli) {
    std::vector<uint32_t>& series = shares_[name];
    series = std::move(before[name]);
    if (series.size() == kMaxKept) series.erase(series.begin());
    series.push_back(milli);
  };
  for (const Shown& shown : hosts) {
    for (const pb::Vgpu& vgpu : shown.status->vgpus()) {
      for (const pb::VgpuDevice& device : vgpu.devices())
        add(NameOf(shown.host, vgpu.id(), device.device()), device.share_got_milli());
      const std::string name = NameOf(shown.host, vgpu.id());
      Net& net = nets_[name];
      net = nets_before[name];
      const uint64_t total = vgpu.net_bytes_in() + vgpu.net_bytes_out();
      const uint64_t now = shown.status->uptime_ms();
      if (net.at_ms != 0 && now > net.at_ms && total >= net.total)
        net.bytes_per_s = (total - net.total) * kMsPerSecond / (now - net.at_ms);
      net.total = total;
      net.at_ms = now;
    }
    for (const pb::Device& device : shown.status->devices())
      add(NameOf(shown.host, "", device.index()), MilliOf(*shown.status, device));
  }
}

std::vector<uint32_t> History::SharesOf(const std::string& host, const std::string& vgpu,
                                        uint32_t device) const {
  auto found = shares_.find(NameOf(host, vgpu, device));
  return found == shares_.end() ? std::vector<uint32_t>() : found->second;
}

std::vector<uint32_t> History::UseOf(const std::string& host, uint32_t device) const {
  return SharesOf(host, "", device);
}

uint64_t History::NetBytesPerSecond(const std::string& host, const std::string& vgpu) const {
  auto found = nets_.find(NameOf(host, vgpu));
  return found == nets_.end() ? 0 : found->second.bytes_per_s;
}

}  // namespace farcall::cli
