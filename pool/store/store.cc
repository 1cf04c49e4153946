// SPDX-License-Identifier: Apache-2.0
#include "pool/store/store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "proto/handshake/handshake.h"

namespace farcall::pool {

namespace {

constexpr int kSchema = 7;
constexpr const char* kTables[] = {"claim", "host",  "join_token", "project",     "user",
                                   "token", "audit", "meta",       "reservation", "pool_group"};
constexpr int kBusyMs = 5000;

// Runs a statement that gives no rows.
int Step(sqlite3_stmt* statement) {
  int result = sqlite3_step(statement);
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return result;
}

std::string Column(sqlite3_stmt* statement, int column) {
  const void* bytes = sqlite3_column_blob(statement, column);
  return std::string(static_cast<const char*>(bytes),
                     static_cast<size_t>(sqlite3_column_bytes(statement, column)));
}

}  // namespace

Status Store::Failed(const char* what) const {
  return {Code::kUnavailable,
          std::string("the pool's store: ") + what + ": " + sqlite3_errmsg(db_)};
}

Status Store::Run(const char* sql) {
  return sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? Status() : Failed(sql);
}

Status Store::Prepare(const char* sql, sqlite3_stmt** statement) {
  return sqlite3_prepare_v2(db_, sql, -1, statement, nullptr) == SQLITE_OK ? Status() : Failed(sql);
}

Store::~Store() {
  sqlite3_finalize(term_);
  for (const auto& [table, statements] : tables_) {
    sqlite3_finalize(statements.put);
    sqlite3_finalize(statements.drop);
  }
  sqlite3_close(db_);
}

Result<std::unique_ptr<Store>> Store::Open(const std::string& path, Loaded* loaded) {
  // It holds the key that signs leases: made for its user alone before SQLite sees it.
  int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0)
    return Status(Code::kUnavailable, "the pool's store '" + path + "': " + strerror(errno));
  close(file);
  sqlite3* db = nullptr;
  if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) {
    std::string why = db == nullptr ? "no memory" : sqlite3_errmsg(db);
    sqlite3_close(db);
    return Status(Code::kUnavailable, "the pool's store '" + path + "': " + why);
  }
  std::unique_ptr<Store> store(new Store(db));
  sqlite3_busy_timeout(db, kBusyMs);
  FARCALL_TRY(store->Run("PRAGMA journal_mode=WAL"));
  FARCALL_TRY(store->Run("PRAGMA synchronous=FULL"));
  // A checkpoint syncs twice while claims wait: seldom, at 40 MB.
  FARCALL_TRY(store->Run("PRAGMA wal_autocheckpoint=10000"));
  FARCALL_TRY(store->Migrate());
  FARCALL_TRY(store->Load(loaded));
  return store;
}

Status Store::Migrate() {
  FARCALL_TRY(Run("BEGIN IMMEDIATE"));
  sqlite3_stmt* version = nullptr;
  FARCALL_TRY(Prepare("PRAGMA user_version", &version));
  int found = sqlite3_step(version) == SQLITE_ROW ? sqlite3_column_int(version, 0) : -1;
  sqlite3_finalize(version);
  if (found > kSchema || found < 0) {
    (void)Run("ROLLBACK");
    return {Code::kUnavailable, "the pool's store is of schema " + std::to_string(found) +
                                    ", this farcall knows " + std::to_string(kSchema)};
  }
  if (found == 0)
    FARCALL_TRY(
        Run("CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "CREATE TABLE claim(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "CREATE TABLE host(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "INSERT INTO meta VALUES('term', 0);"
            "PRAGMA user_version=1"));
  if (found < 2)
    FARCALL_TRY(
        Run("CREATE TABLE join_token(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "PRAGMA user_version=2"));
  if (found < 3)
    FARCALL_TRY(
        Run("CREATE TABLE project(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "PRAGMA user_version=3"));
  if (found < 4)
    FARCALL_TRY(
        Run("CREATE TABLE user(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "CREATE TABLE token(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "PRAGMA user_version=4"));
  if (found < 5)
    FARCALL_TRY(
        Run("CREATE TABLE audit(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "PRAGMA user_version=5"));
  if (found < 6)
    FARCALL_TRY(
        Run("CREATE TABLE reservation(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "PRAGMA user_version=6"));
  if (found < 7)
    FARCALL_TRY(
        Run("CREATE TABLE pool_group(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
            "PRAGMA user_version=7"));
  return Run("COMMIT");
}

Status Store::Load(Loaded* loaded) {
  FARCALL_TRY(Run("BEGIN IMMEDIATE"));
  FARCALL_TRY(Run("UPDATE meta SET value = value + 1 WHERE key = 'term'"));
  FARCALL_TRY(Prepare("SELECT value FROM meta WHERE key = 'term'", &term_));
  for (const char* table : kTables) {
    const std::string name = table;
    Statements& of = tables_[name];
    FARCALL_TRY(Prepare(("INSERT OR REPLACE INTO " + name + " VALUES(?, ?)").c_str(), &of.put));
    FARCALL_TRY(Prepare(("DELETE FROM " + name + " WHERE key = ?").c_str(), &of.drop));
  }
  Result<uint64_t> term = Term();
  if (!term.ok()) return term.status();
  own_term_ = loaded->term = *term;
  auto read = [&](const char* sql, auto use) -> Status {
    sqlite3_stmt* rows = nullptr;
    FARCALL_TRY(Prepare(sql, &rows));
    while (sqlite3_step(rows) == SQLITE_ROW) use(Column(rows, 0));
    return sqlite3_finalize(rows) == SQLITE_OK ? Status() : Failed(sql);
  };
  FARCALL_TRY(read("SELECT value FROM claim",
                   [&](std::string v) { loaded->claims.push_back(std::move(v)); }));
  FARCALL_TRY(read("SELECT value FROM host",
                   [&](std::string v) { loaded->hosts.push_back(std::move(v)); }));
  FARCALL_TRY(read("SELECT value FROM join_token",
                   [&](std::string v) { loaded->join_tokens.push_back(std::move(v)); }));
  FARCALL_TRY(read("SELECT value FROM project",
                   [&](std::string v) { loaded->projects.push_back(std::move(v)); }));
  FARCALL_TRY(read("SELECT value FROM reservation",
                   [&](std::string v) { loaded->reservations.push_back(std::move(v)); }));
  FARCALL_TRY(read("SELECT value FROM pool_group",
                   [&](std::string v) { loaded->groups.push_back(std::move(v)); }));
  FARCALL_TRY(read("SELECT value FROM user",
                   [&](std::string v) { loaded->users.push_back(std::move(v)); }));
  FARCALL_TRY(read("SELECT value FROM token",
                   [&](std::string v) { loaded->tokens.push_back(std::move(v)); }));
  FARCALL_TRY(read("SELECT value FROM meta WHERE key = 'audit_before'",
                   [&](std::string v) { loaded->audit_before = std::move(v); }));
  FARCALL_TRY(read("SELECT value FROM meta WHERE key = 'audit_newest'",
                   [&](std::string v) { loaded->audit_newest = std::move(v); }));
  std::string secret;
  FARCALL_TRY(read("SELECT value FROM meta WHERE key = 'key'",
                   [&](std::string v) { secret = std::move(v); }));
  FARCALL_TRY(read("SELECT value FROM meta WHERE key = 'pool'",
                   [&](std::string v) { loaded->pool = std::move(v); }));
  if (secret.size() == loaded->key.size()) {
    std::memcpy(loaded->key.data(), secret.data(), secret.size());
    return Run("COMMIT");
  }
  loaded->key = NewLeaseKey();
  std::array<uint8_t, 6> random;
  RandomBytes(random);
  loaded->pool = "pool-";
  for (uint8_t byte : random) loaded->pool += "0123456789abcdef"[byte % 16];
  sqlite3_stmt* put = nullptr;
  FARCALL_TRY(Prepare("INSERT OR REPLACE INTO meta VALUES(?, ?)", &put));
  sqlite3_bind_text(put, 1, "key", -1, SQLITE_STATIC);
  sqlite3_bind_blob(put, 2, loaded->key.data(), static_cast<int>(loaded->key.size()),
                    SQLITE_STATIC);
  int first = Step(put);
  sqlite3_bind_text(put, 1, "pool", -1, SQLITE_STATIC);
  sqlite3_bind_text(put, 2, loaded->pool.c_str(), -1, SQLITE_STATIC);
  int second = Step(put);
  sqlite3_finalize(put);
  if (first != SQLITE_DONE || second != SQLITE_DONE) return Failed("the pool's key");
  return Run("COMMIT");
}

Result<uint64_t> Store::Term() {
  if (sqlite3_step(term_) != SQLITE_ROW) {
    sqlite3_reset(term_);
    return Failed("its term");
  }
  auto term = static_cast<uint64_t>(sqlite3_column_int64(term_, 0));
  sqlite3_reset(term_);
  return term;
}

Status Store::Write(const Batch& batch) {
  for (const Batch::Write& write : batch.writes) {
    const Statements& of = tables_.at(write.table);
    sqlite3_stmt* statement = write.value.empty() ? of.drop : of.put;
    sqlite3_bind_text(statement, 1, write.key.data(), static_cast<int>(write.key.size()),
                      SQLITE_STATIC);
    if (!write.value.empty())
      sqlite3_bind_blob(statement, 2, write.value.data(), static_cast<int>(write.value.size()),
                        SQLITE_STATIC);
    if (Step(statement) != SQLITE_DONE) return Failed(write.table);
  }
  return {};
}

Status Store::Commit(const Batch& batch) {
  auto compare = [&]() -> Status {
    Result<uint64_t> term = Term();
    if (!term.ok()) return term.status();
    if (*term != own_term_)
      return {Code::kRefused, "another controller has taken the store over (term " +
                                  std::to_string(*term) + ", this one's is " +
                                  std::to_string(own_term_) + ")"};
    return {};
  };
  RollBack();
  if (batch.writes.empty()) return compare();
  FARCALL_TRY(Run("BEGIN IMMEDIATE"));
  Status done = compare();
  if (done.ok()) done = Write(batch);
  if (done.ok()) done = Run("COMMIT");
  if (!done.ok()) RollBack();
  return done;
}

// A full disk may end a transaction or leave it open. Frames of the log behind its last commit do
// not count, and the next commit writes over them.
void Store::RollBack() {
  if (sqlite3_get_autocommit(db_) == 0) (void)Run("ROLLBACK");
}

std::string AuditKey(uint64_t number) {
  std::string digits = std::to_string(number);
  return std::string(20 - digits.size(), '0') + digits;
}

std::vector<std::pair<uint64_t, std::string>> Store::AuditAfter(uint64_t number, uint64_t limit) {
  std::vector<std::pair<uint64_t, std::string>> found;
  sqlite3_stmt* rows = nullptr;
  if (!Prepare("SELECT key, value FROM audit WHERE key > ? ORDER BY key LIMIT ?", &rows).ok())
    return found;
  const std::string after = AuditKey(number);
  sqlite3_bind_text(rows, 1, after.data(), static_cast<int>(after.size()), SQLITE_STATIC);
  sqlite3_bind_int64(rows, 2, static_cast<int64_t>(limit));
  while (sqlite3_step(rows) == SQLITE_ROW)
    found.emplace_back(std::strtoull(Column(rows, 0).c_str(), nullptr, 10), Column(rows, 1));
  sqlite3_finalize(rows);
  return found;
}

void Store::MakeRoom() {
  RollBack();
  (void)sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
}

}  // namespace farcall::pool
