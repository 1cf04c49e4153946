// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sharing/quota_changes.h"

#include <utility>

namespace farcall::server {

void QuotaChanges::Begin(Task task, quota::Ns now) {
  if (!Try(task, Attempt::kFirst, now))
    waiting_.push_back({std::move(task), now + MemoryCharges::kRecallPatience});
}

void QuotaChanges::Tick(quota::Ns now) {
  std::vector<Waiting> all = std::exchange(waiting_, {});
  for (Waiting& waiting : all)
    if (!Try(waiting.task, now >= waiting.until ? Attempt::kLast : Attempt::kAgain, now))
      waiting_.push_back(std::move(waiting));
}

QuotaChanges::Fit QuotaChanges::FitMemory(const Task& task, Attempt attempt) {
  if (!task.change.memory_bytes) return Fit::kFits;
  const uint64_t asked = *task.change.memory_bytes;
  for (int device : task.devices) {
    uint64_t ceiling = task.is_claims ? asked : hooks_.ceiling_bytes(device);
    if (asked == 0 || asked > ceiling) {
      task.done(ChangeOutcome::kInvalid, "memory " + std::to_string(asked) + ": device " +
                                             std::to_string(device) + " takes 1 to " +
                                             std::to_string(ceiling) + " bytes");
      return Fit::kRefused;
    }
    uint64_t charged = charges_.ledger().usage(task.vgpu, device).charged_bytes;
    if (charged <= asked) continue;
    if (attempt == Attempt::kLast) {
      task.done(ChangeOutcome::kRefused, "memory " + std::to_string(asked) + ": it holds " +
                                             std::to_string(charged) + " bytes of device " +
                                             std::to_string(device));
      return Fit::kRefused;
    }
    if (attempt == Attempt::kFirst) charges_.RecallFrom(task.vgpu, device);
    return Fit::kWaits;
  }
  return Fit::kFits;
}

bool QuotaChanges::Try(const Task& task, Attempt attempt, quota::Ns now) {
  const QuotaChange& change = task.change;
  auto end = [&](ChangeOutcome outcome, const std::string& why) {
    task.done(outcome, why);
    return true;
  };
  const bool runs = hooks_.runs(task.vgpu);
  if (!runs && task.is_claims) return end(ChangeOutcome::kDone, "");  // of its next session
  if (!runs) {
    return end(ChangeOutcome::kNoSuchVgpu,
               "no vGPU is named '" + task.name + "'; farcall ps lists them");
  }
  if (is_in_pool_ && !task.is_claims)
    return end(ChangeOutcome::kRefused, "its quota is its claim's: farcall pool set changes that");
  const Fit fit = FitMemory(task, attempt);
  if (fit != Fit::kFits) return fit == Fit::kRefused;
  auto refuse_for = [&](const Status& why) {
    return end(why.code() == Code::kInvalid ? ChangeOutcome::kInvalid : ChangeOutcome::kRefused,
               why.message());
  };
  if (change.net_bytes_per_s) {  // all or nothing: what the other changes meet is not known yet
    Status allowed = net_.Check(*change.net_bytes_per_s);
    if (!allowed.ok()) return refuse_for(allowed);
  }
  if (change.ChangesCompute()) {
    Status changed = hooks_.change_compute(task.vgpu, change);
    if (!changed.ok()) return refuse_for(changed);
  }
  if (change.net_bytes_per_s) (void)net_.Change(task.vgpu, *change.net_bytes_per_s, now);
  if (change.memory_bytes)
    for (int device : task.devices)
      (void)charges_.ledger().SetQuota(task.vgpu, device, *change.memory_bytes);
  hooks_.changed(task.name, change);
  return end(ChangeOutcome::kDone, "");
}

}  // namespace farcall::server
