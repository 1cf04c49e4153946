// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/credit.h"

#include <algorithm>

#include "client-shim/core/session/calls.h"

namespace farcall::client {

Credit& DeviceCredit() {
  if (Session* session = CurrentSession()) [[likely]]
    return session->credit();
  static Credit* none = new Credit;
  return *none;
}

void Credit::SetWindow(const Window& window) {
  std::lock_guard lock(mutex_);
  window_ = window;
  granted_.clear();
  pools_.clear();
  waiting_.clear();
}

bool Credit::AddGrant(int32_t device, uint64_t base, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (device < 0 || bytes == 0 || base % kAllocationAlign != 0 || bytes % kAllocationAlign != 0 ||
      !window_.Contains(base, bytes))
    return false;
  auto after = granted_.lower_bound(base);
  if (after != granted_.end() && after->first < base + bytes) return false;
  if (after != granted_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second > base) return false;
  }
  granted_[base] = bytes;
  InsertLocked({device, base, bytes});
  return true;
}

void Credit::EraseLocked(Pool& pool, ByBase::iterator at) {
  pool.by_size.erase({at->second, at->first});
  pool.by_base.erase(at);
}

void Credit::InsertLocked(const CreditRange& range) {
  Pool& pool = pools_[range.device];
  uint64_t base = range.base, bytes = range.bytes;
  auto after = pool.by_base.lower_bound(base);
  if (after != pool.by_base.end() && after->first == base + bytes) {
    bytes += after->second;
    EraseLocked(pool, after);
  }
  after = pool.by_base.lower_bound(base);
  if (after != pool.by_base.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == base) {
      base = before->first;
      bytes += before->second;
      EraseLocked(pool, before);
    }
  }
  pool.by_base[base] = bytes;
  pool.by_size.insert({bytes, base});
}

uint64_t Credit::Take(int32_t device, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  Pool& pool = pools_[device];
  auto fit = pool.by_size.lower_bound({bytes, 0});
  if (fit == pool.by_size.end()) return 0;
  auto [size, base] = *fit;
  EraseLocked(pool, pool.by_base.find(base));
  if (size > bytes) {
    pool.by_base[base + bytes] = size - bytes;
    pool.by_size.insert({size - bytes, base + bytes});
  }
  return base;
}

uint64_t Credit::TakeAt(int32_t device, uint64_t base, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  Pool& pool = pools_[device];
  auto at = pool.by_base.upper_bound(base);
  if (at == pool.by_base.begin()) return 0;
  --at;
  const auto [first, size] = *at;
  if (base - first > size || bytes > size - (base - first)) return 0;
  EraseLocked(pool, at);
  if (first < base) InsertLocked({device, first, base - first});
  const uint64_t left = size - (base - first) - bytes;
  if (left != 0) InsertLocked({device, base + bytes, left});
  return base;
}

void Credit::GiveBack(const CreditRange& range) {
  std::lock_guard lock(mutex_);
  InsertLocked(range);
}

void Credit::Quarantine(uint16_t context, uint64_t epoch, const CreditRange& range) {
  std::lock_guard lock(mutex_);
  waiting_.push_back({context, epoch, range});
}

void Credit::Freed(uint16_t context, uint64_t epoch) {
  std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.context != context || waiting.epoch > epoch) return false;
    InsertLocked(waiting.range);
    return true;
  });
}

uint64_t Credit::FreeBytes(int32_t device) {
  std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (auto& [base, bytes] : pools_[device].by_base) total += bytes;
  return total;
}

uint64_t Credit::QuarantinedBytes(int32_t device) {
  std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const Waiting& waiting : waiting_)
    total += waiting.range.device == device ? waiting.range.bytes : 0;
  return total;
}

std::optional<Credit::Quarantined> Credit::NextQuarantined(int32_t device, uint32_t from) {
  std::lock_guard lock(mutex_);
  std::optional<Quarantined> next;
  for (const Waiting& waiting : waiting_) {
    if (waiting.range.device != device || waiting.context < from) continue;
    if (!next || waiting.context < next->context)
      next = {waiting.context, waiting.epoch};
    else if (waiting.context == next->context)
      next->epoch = std::max(next->epoch, waiting.epoch);
  }
  return next;
}

std::vector<CreditRange> Credit::TakeForReturn(int32_t device, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  std::vector<CreditRange> ranges;
  auto found = pools_.find(device);  // the server's word: there may be no such device
  if (found == pools_.end()) return ranges;
  Pool& pool = found->second;
  for (auto at = pool.by_base.begin(); at != pool.by_base.end() && bytes != 0;) {
    auto [base, size] = *at;
    uint64_t first = AlignUp(base, kChunkGranularityBytes);
    uint64_t last = (base + size) / kChunkGranularityBytes * kChunkGranularityBytes;
    auto next = std::next(at);
    if (first < last) {
      uint64_t give = AlignUp(std::min(last - first, bytes), kChunkGranularityBytes);
      EraseLocked(pool, at);
      if (first > base) InsertLocked({device, base, first - base});
      if (first + give < base + size)
        InsertLocked({device, first + give, base + size - first - give});
      ranges.push_back({device, first, give});
      bytes -= std::min(bytes, give);
      next = pool.by_base.upper_bound(first);
    }
    at = next;
  }
  returns_ += ranges.empty() ? 0 : 1;
  // What goes back may be granted again: cut it out of the grants.
  for (const CreditRange& range : ranges) {
    uint64_t end = range.base + range.bytes;
    for (auto grant = granted_.begin(); grant != granted_.end() && grant->first < end;) {
      uint64_t grant_base = grant->first, grant_end = grant->first + grant->second;
      if (grant_end <= range.base) {
        ++grant;
        continue;
      }
      grant = granted_.erase(grant);
      if (grant_base < range.base) granted_[grant_base] = range.base - grant_base;
      if (grant_end > end) granted_[end] = grant_end - end;
    }
  }
  return ranges;
}

uint64_t Credit::ReturnableBytes(int32_t device) {
  std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (auto& [base, bytes] : pools_[device].by_base) {
    const uint64_t first = AlignUp(base, kChunkGranularityBytes);
    const uint64_t last = (base + bytes) / kChunkGranularityBytes * kChunkGranularityBytes;
    total += first < last ? last - first : 0;
  }
  return total;
}

uint64_t Credit::returns() {
  std::lock_guard lock(mutex_);
  return returns_;
}

void ReturnCredit(Session* session, int32_t device, uint64_t bytes) {
  for (const CreditRange& range : session->credit().TakeForReturn(device, bytes)) {
    FixedBody<24> body;
    body.Put<int32_t>(range.device);
    body.Put<uint64_t>(range.base);
    body.Put<uint64_t>(range.bytes);
    Record record;
    record.call = static_cast<uint16_t>(SessionCall::kReturnCredit);
    record.head = body.bytes();
    session->PostRecord(record, {.leaves = Leaves::kFlushed});
  }
}

}  // namespace farcall::client
