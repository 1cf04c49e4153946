// SPDX-License-Identifier: Apache-2.0
#include "pool/store/store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

namespace farcall::pool {
namespace {

class PoolStore : public testing::Test {
 protected:
  PoolStore() {
    char folder[] = "/tmp/farcall-store-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/pool.db";
  }
  ~PoolStore() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<Store> Open(Loaded* loaded) {
    auto store = Store::Open(path_, loaded);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? std::move(*store) : nullptr;
  }
  std::string folder_, path_;
};

TEST_F(PoolStore, KeepsWhatWasCommittedAndItsKeyAndRaisesTheTerm) {
  Loaded first, second;
  auto store = Open(&first);
  EXPECT_EQ(first.term, 1u);
  ASSERT_TRUE(store->Commit({{{"claim", "a", "A"}, {"claim", "b", "B"}, {"host", "h", "H"}}}).ok());
  ASSERT_TRUE(store->Commit({{{"claim", "a", ""}, {"claim", "b", "BB"}}}).ok());
  store.reset();
  store = Open(&second);
  EXPECT_EQ(second.term, 2u);
  EXPECT_EQ(second.claims, std::vector<std::string>{"BB"});
  EXPECT_EQ(second.hosts, std::vector<std::string>{"H"});
  EXPECT_EQ(second.key, first.key);
  EXPECT_EQ(second.pool, first.pool);
}

TEST_F(PoolStore, FencesAControllerThatAnotherHasFollowed) {
  Loaded older_load, newer_load, after;
  auto older = Open(&older_load), newer = Open(&newer_load);
  Status refused = older->Commit({{{"claim", "a", "old"}}});
  EXPECT_EQ(refused.code(), Code::kRefused);
  EXPECT_EQ(older->Commit({}).code(), Code::kRefused);
  ASSERT_TRUE(newer->Commit({{{"claim", "a", "new"}}}).ok());
  older.reset(), newer.reset();
  Open(&after);
  EXPECT_EQ(after.claims, std::vector<std::string>{"new"});
}

TEST_F(PoolStore, IsReadableForItsUserAlone) {
  Loaded loaded;
  auto store = Open(&loaded);
  struct stat found {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(PoolStore, RefusesAnotherReleasesSchemaAndWhatIsNoStore) {
  Loaded loaded;
  Open(&loaded).reset();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA user_version=9", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  auto newer = Store::Open(path_, &loaded);
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.status().message(), "the pool's store is of schema 9, this farcall knows 7");
  EXPECT_FALSE(Store::Open(folder_, &loaded).ok());
  EXPECT_FALSE(Store::Open(folder_ + "/none/pool.db", &loaded).ok());
}

}  // namespace
}  // namespace farcall::pool
