// SPDX-License-Identifier: Apache-2.0
// What outlives a controller: SQLite, WAL, synchronous=FULL. A commit counts only under the newest
// term: a controller that another has followed finds that out at its next one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/handshake/lease_token.h"
#include "proto/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace farcall::pool {

struct Batch {
  // Table (kTables of store.cc), key, value; an empty value erases.
  struct Write {
    const char* table;
    std::string key, value;
  };
  std::vector<Write> writes;
};

struct Loaded {
  std::vector<std::string> claims, hosts, join_tokens, projects, reservations, groups, users,
      tokens;        // values
  std::string pool;  // its name, made at the first start
  LeaseSecretKey key{};
  uint64_t term = 0;                       // this controller's
  std::string audit_before, audit_newest;  // "NUMBER HASH" each (pool/store/audit.h)
};

// Of the entry of that number: in their order.
std::string AuditKey(uint64_t number);

class Store {
 public:
  // Opens, or makes, the file (readable for its user alone) and raises the term.
  //   Errors  kUnavailable, one line
  static Result<std::unique_ptr<Store>> Open(const std::string& path, Loaded* loaded);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // All of it or nothing; of an empty batch only the term is compared.
  //   Errors  kRefused (another controller has taken over), kUnavailable (the disk)
  Status Commit(const Batch& batch);
  // After a commit that the disk had no room for: gives back what the log of past commits takes.
  void MakeRoom();
  // Entries of the audit after that number, so many at most: number and value.
  std::vector<std::pair<uint64_t, std::string>> AuditAfter(uint64_t number, uint64_t limit);

 private:
  explicit Store(sqlite3* db) : db_(db) {}
  Status Run(const char* sql);
  Status Prepare(const char* sql, sqlite3_stmt** statement);
  Status Migrate();
  Status Load(Loaded* loaded);
  Result<uint64_t> Term();
  Status Write(const Batch& batch);
  void RollBack();
  Status Failed(const char* what) const;

  sqlite3* db_;
  sqlite3_stmt* term_ = nullptr;
  struct Statements {
    sqlite3_stmt *put = nullptr, *drop = nullptr;
  };
  std::map<std::string, Statements> tables_;
  uint64_t own_term_ = 0;
};

}  // namespace farcall::pool
