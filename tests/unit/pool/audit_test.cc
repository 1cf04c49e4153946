// SPDX-License-Identifier: Apache-2.0
// The audit's chain: what is written is whole, and what was changed is found.
#include "pool/store/audit.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace farcall::pool {
namespace {

using Json = nlohmann::json;

class PoolAudit : public testing::Test {
 protected:
  PoolAudit() {
    char folder[] = "/tmp/pool-audit-XXXXXX";
    folder_ = mkdtemp(folder);
    auto store = Store::Open(folder_ + "/pool.db", &loaded_);
    EXPECT_TRUE(store.ok());
    store_ = std::move(*store);
  }
  ~PoolAudit() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Add(const std::string& verb, int status = 200, int64_t time_ms = 1'000'000) {
    AuditEntry entry;
    entry.time_ms = time_ms;
    entry.actor = "alice";
    entry.verb = verb;
    entry.status = status;
    log_.Add(std::move(entry));
  }
  void Commit() {
    Batch batch;
    log_.Writes(*store_, &batch);
    EXPECT_TRUE(store_->Commit(batch).ok());
    log_.Stored();
  }
  std::vector<std::pair<uint64_t, Json>> Rows() {
    std::vector<std::pair<uint64_t, Json>> rows;
    for (const auto& [number, value] : store_->AuditAfter(0, 1'000'000))
      rows.emplace_back(number, Json::parse(value));
    return rows;
  }
  // What verify says of them.
  std::string Verified(const std::vector<std::pair<uint64_t, Json>>& rows) {
    AuditVerifier verifier(log_.before());
    for (const auto& [number, entry] : rows)
      if (std::string wrong = verifier.Next(number, entry); !wrong.empty()) return wrong;
    return verifier.End(log_.newest());
  }

  std::string folder_;
  Loaded loaded_;
  std::unique_ptr<Store> store_;
  AuditLog log_;
};

TEST_F(PoolAudit, a_chain_is_whole_and_each_change_of_it_is_found) {
  for (const char* verb : {"a", "b", "c", "d"}) Add(verb);
  Commit();
  Add("e");
  Commit();
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(Verified(rows), "");
  for (const char* field : {"actor", "verb", "token", "source", "object", "detail", "time_ms"}) {
    auto changed = rows;
    changed[2].second[field] = "another";
    EXPECT_EQ(Verified(changed), "entry 3 was changed, or the one before it") << field;
  }
  auto removed = rows;
  removed.erase(removed.begin() + 1);
  EXPECT_EQ(Verified(removed), "entry 2 is missing: after 1 comes 3");
  auto swapped = rows;
  std::swap(swapped[1].second, swapped[2].second);
  EXPECT_NE(Verified(swapped), "");
  auto shortened = rows;
  shortened.pop_back();
  EXPECT_EQ(Verified(shortened), "entry 5 is missing: the newest is 5");
  auto unreadable = rows;
  unreadable[0].second = Json();
  EXPECT_EQ(Verified(unreadable), "entry 1 cannot be read");
}

TEST_F(PoolAudit, what_was_not_stored_is_written_again) {
  Add("a");
  Batch lost;
  log_.Writes(*store_, &lost);
  Add("b");
  Commit();
  EXPECT_EQ(Rows().size(), 2u);
  EXPECT_EQ(Verified(Rows()), "");
}

TEST_F(PoolAudit, refusals_push_nothing_out_and_are_counted) {
  for (int i = 0; i < 1000; ++i) Add("x", 403);
  Add("y");
  Commit();
  const auto rows = Rows();
  EXPECT_EQ(rows.size(), 62u);  // a minute of refusals, those that are lost in one, and y
  EXPECT_EQ(rows.front().second["verb"], "audit.lost");
  EXPECT_EQ(rows.front().second["detail"].get<std::string>().substr(0, 4), "940 ");
  EXPECT_EQ(Verified(rows), "");
}

TEST_F(PoolAudit, it_is_bounded_and_what_is_left_is_whole) {
  for (uint64_t written = 0; written < AuditLog::kMaxKept + 2 * AuditLog::kTrim;
       written += AuditLog::kTrim) {
    for (uint64_t i = 0; i < AuditLog::kTrim; ++i) Add("a");
    Commit();
  }
  const auto rows = Rows();
  EXPECT_LE(rows.size(), AuditLog::kMaxKept + AuditLog::kTrim);
  EXPECT_EQ(rows.front().first, log_.before().number + 1);
  EXPECT_GT(log_.before().number, 0u);
  EXPECT_EQ(Verified(rows), "");
}

}  // namespace
}  // namespace farcall::pool
