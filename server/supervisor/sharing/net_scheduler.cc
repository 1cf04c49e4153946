// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sharing/net_scheduler.h"

#include <algorithm>

#include "settings/byte_rate.h"

namespace farcall::server {

Result<uint64_t> NetScheduler::Judge(uint64_t bytes_per_s) const {
  if (bytes_per_s == 0) return ceiling_;
  if (bytes_per_s < kLeastBytesPerSecond || bytes_per_s > kMaxBytesPerSecond) {
    return Status(Code::kInvalid, "network: asked " + ByteRateText(bytes_per_s) + ", at least " +
                                      ByteRateText(kLeastBytesPerSecond) + " is needed");
  }
  if (ceiling_ != 0 && bytes_per_s > ceiling_) {
    return Status(Code::kRefused, "network: asked " + ByteRateText(bytes_per_s) +
                                      ", the server allows " + ByteRateText(ceiling_));
  }
  return bytes_per_s;
}

Status NetScheduler::Join(const std::string& vgpu, WorkerId worker, uint64_t bytes_per_s,
                          quota::Ns now) {
  auto found = vgpus_.find(vgpu);
  if (found == vgpus_.end()) {
    Result<uint64_t> rate = Judge(bytes_per_s);
    if (!rate.ok()) return rate.status();
    found = vgpus_.try_emplace(vgpu).first;
    if (*rate != 0) found->second.budget.emplace(*rate, now);
  }
  found->second.workers.push_back(worker);
  vgpu_of_[worker] = vgpu;
  return {};
}

void NetScheduler::Begin(WorkerId worker) {
  auto found = vgpu_of_.find(worker);
  if (found != vgpu_of_.end() && vgpus_.at(found->second).budget)
    send_(worker, control::NetLimit{.is_limited = true});
}

void NetScheduler::Leave(WorkerId worker) {
  auto found = vgpu_of_.find(worker);
  if (found == vgpu_of_.end()) return;
  auto vgpu = vgpus_.find(found->second);
  std::erase(vgpu->second.workers, worker);
  std::erase(vgpu->second.waiting, worker);
  const Use use = uses_[worker];
  vgpu->second.gone.bytes_in += use.bytes_in;
  vgpu->second.gone.bytes_out += use.bytes_out;
  vgpu->second.gone.waited_ns += use.waited_ns;
  if (vgpu->second.workers.empty()) vgpus_.erase(vgpu);
  uses_.erase(worker);
  vgpu_of_.erase(found);
}

Status NetScheduler::Change(const std::string& vgpu, uint64_t bytes_per_s, quota::Ns now) {
  auto found = vgpus_.find(vgpu);
  if (found == vgpus_.end()) return {Code::kInvalid, "network: no vGPU '" + vgpu + "'"};
  Result<uint64_t> rate = Judge(bytes_per_s);
  if (!rate.ok()) return rate.status();
  bool was_limited = found->second.budget.has_value();
  if (*rate == 0) {
    found->second.budget.reset();
    found->second.waiting.clear();
  } else if (was_limited) {
    found->second.budget->SetRate(*rate, now);
  } else {
    found->second.budget.emplace(*rate, now);
  }
  if (was_limited != (*rate != 0))
    for (WorkerId worker : found->second.workers)
      send_(worker, control::NetLimit{.is_limited = *rate != 0});
  Give(found->second, now);
  return {};
}

void NetScheduler::OnMessage(WorkerId worker, const control::NetUse& message, quota::Ns) {
  if (vgpu_of_.count(worker) == 0) return;
  Use& use = uses_[worker];
  // They only grow: a worker that says less has lied, and takes nothing back.
  use.bytes_in = std::max(use.bytes_in, message.received_bytes);
  use.bytes_out = std::max(use.bytes_out, message.sent_bytes);
  use.waited_ns = std::max(use.waited_ns, message.waited_ns);
}

void NetScheduler::OnMessage(WorkerId worker, const control::WantNetBytes&, quota::Ns now) {
  auto found = vgpu_of_.find(worker);
  if (found == vgpu_of_.end()) return;
  Vgpu& vgpu = vgpus_.at(found->second);
  bool waits = std::find(vgpu.waiting.begin(), vgpu.waiting.end(), worker) != vgpu.waiting.end();
  if (vgpu.budget && !waits) {
    vgpu.waiting.push_back(worker);
    Give(vgpu, now);
  }
}

void NetScheduler::Give(Vgpu& vgpu, quota::Ns now) {
  while (vgpu.budget && !vgpu.waiting.empty()) {
    const uint64_t bytes = vgpu.budget->Lend(now);
    if (bytes == 0) return;
    WorkerId worker = vgpu.waiting.front();
    vgpu.waiting.pop_front();
    send_(worker, control::NetBytes{.bytes = bytes});
  }
}

void NetScheduler::Tick(quota::Ns now) {
  for (auto& [name, vgpu] : vgpus_) Give(vgpu, now);
}

quota::Ns NetScheduler::WakeAt(quota::Ns now) {
  quota::Ns at = kNever;
  for (auto& [name, vgpu] : vgpus_)
    if (vgpu.budget && !vgpu.waiting.empty()) at = std::min(at, now + vgpu.budget->Until(now));
  return at;
}

NetScheduler::Use NetScheduler::UseOf(const std::string& vgpu) const {
  auto found = vgpus_.find(vgpu);
  if (found == vgpus_.end()) return {};
  Use total = found->second.gone;
  total.bytes_per_s = found->second.budget ? found->second.budget->bytes_per_s() : 0;
  for (WorkerId worker : found->second.workers) {
    auto use = uses_.find(worker);
    if (use != uses_.end()) {
      total.bytes_in += use->second.bytes_in;
      total.bytes_out += use->second.bytes_out;
      total.waited_ns += use->second.waited_ns;
    }
  }
  return total;
}

}  // namespace farcall::server
