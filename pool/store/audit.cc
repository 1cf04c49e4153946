// SPDX-License-Identifier: Apache-2.0
#include "pool/store/audit.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "proto/handshake/crypto.h"
#include "proto/hex.h"

namespace farcall::pool {

namespace {

using Json = nlohmann::json;

std::string TextOf(const AuditPoint& point) {
  return std::to_string(point.number) + " " + point.hash;
}

Json JsonOf(const AuditEntry& entry, uint64_t number) {
  return {{"number", number},       {"time_ms", entry.time_ms}, {"actor", entry.actor},
          {"token", entry.token},   {"source", entry.source},   {"verb", entry.verb},
          {"object", entry.object}, {"detail", entry.detail},   {"status", entry.status}};
}

}  // namespace

std::string AuditHash(const std::string& previous, const Json& entry) {
  Json plain = entry;
  plain.erase("hash");
  const std::string text =
      previous + "\n" + plain.dump(-1, ' ', true, Json::error_handler_t::replace);
  return HexOf(Sha256(std::as_bytes(std::span(text))));
}

std::string AuditVerifier::Next(uint64_t key, const Json& entry) {
  const uint64_t expected = last_.number + 1;
  if (key != expected)
    return "entry " + std::to_string(expected) + " is missing: after " +
           std::to_string(last_.number) + " comes " + std::to_string(key);
  if (!entry.is_object() || !entry.contains("hash") || !entry["hash"].is_string())
    return "entry " + std::to_string(key) + " cannot be read";
  if (entry.value("number", Json()) != Json(key))
    return "entry " + std::to_string(key) + " was moved: it says that it is another one";
  if (entry["hash"] != AuditHash(last_.hash, entry))
    return "entry " + std::to_string(key) + " was changed, or the one before it";
  last_ = {key, entry["hash"].get<std::string>()};
  return "";
}

std::string AuditVerifier::End(const AuditPoint& newest) const {
  if (last_.number < newest.number)
    return "entry " + std::to_string(last_.number + 1) + " is missing: the newest is " +
           std::to_string(newest.number);
  return last_.hash == newest.hash ? "" : "the newest entry is not the one that was written last";
}

void AuditLog::Load(AuditPoint before, AuditPoint newest) {
  before_ = next_before_ = std::move(before);
  newest_ = next_newest_ = std::move(newest);
}

bool AuditLog::TakeRefused(int64_t now_ms) {
  constexpr int64_t kCost = 1000, kBorrowed = 60'000;
  const int64_t paid = std::max(refused_paid_ms_, now_ms) + kCost;
  if (paid - now_ms > kBorrowed) return false;
  refused_paid_ms_ = paid;
  return true;
}

void AuditLog::Add(AuditEntry entry) {
  std::lock_guard lock(mutex_);
  if (pending_.size() >= kMaxPending || (entry.status == 403 && !TakeRefused(entry.time_ms))) {
    ++lost_;
    return;
  }
  pending_.push_back(std::move(entry));
}

void AuditLog::Writes(Store& store, Batch* batch) {
  std::lock_guard lock(mutex_);
  next_before_ = before_;
  next_newest_ = newest_;
  written_ = pending_.size();
  written_lost_ = pending_.empty() ? 0 : lost_;  // told with the next entry that is kept
  if (written_ == 0) return;
  auto write = [&](const AuditEntry& entry) {
    Json json = JsonOf(entry, next_newest_.number + 1);
    json["hash"] = AuditHash(next_newest_.hash, json);
    next_newest_ = {next_newest_.number + 1, json["hash"].get<std::string>()};
    batch->writes.push_back({"audit", AuditKey(next_newest_.number),
                             json.dump(-1, ' ', true, Json::error_handler_t::replace)});
  };
  if (written_lost_ != 0) {
    AuditEntry lost;
    lost.time_ms = pending_.front().time_ms;
    lost.verb = "audit.lost";
    lost.detail = std::to_string(written_lost_) + " entries, of refusals or beyond what fits";
    write(lost);
  }
  for (const AuditEntry& entry : pending_) write(entry);
  batch->writes.push_back({"meta", "audit_newest", TextOf(next_newest_)});
  if (next_newest_.number - next_before_.number <= kMaxKept + kTrim) return;
  const auto oldest = store.AuditAfter(next_before_.number, kTrim);
  if (oldest.size() != kTrim) return;  // somebody has taken some out: verify says so
  const Json last = Json::parse(oldest.back().second, nullptr, false);
  if (!last.is_object() || !last.contains("hash") || !last["hash"].is_string()) return;
  for (const auto& [number, value] : oldest)
    batch->writes.push_back({"audit", AuditKey(number), ""});
  next_before_ = {oldest.back().first, last["hash"].get<std::string>()};
  batch->writes.push_back({"meta", "audit_before", TextOf(next_before_)});
}

void AuditLog::Stored() {
  std::lock_guard lock(mutex_);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<long>(written_));
  lost_ -= written_lost_;
  written_ = 0;
  written_lost_ = 0;
  before_ = next_before_;
  newest_ = next_newest_;
}

}  // namespace farcall::pool
