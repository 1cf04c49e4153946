// SPDX-License-Identifier: Apache-2.0
// `farcall pool audit`: who changed what; and whether the chain of hashes is whole.
#include "pool/store/audit.h"

#include <google/protobuf/struct.pb.h>

#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/pool/base/commands.h"
#include "cli/pool/base/pool_options.h"
#include "pool/client/rest_client.h"
#include "proto/printable.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

using Json = nlohmann::json;
using pool::AuditPoint;

constexpr size_t kPage = 500;

int Fail(const std::string& why) {
  std::fprintf(stderr, "farcall pool audit: %s\n", Printable(why, kMaxMessageBytes).c_str());
  return kExitFailure;
}

bool ReadPoint(const Json& told, const char* name, AuditPoint* point) {
  const Json at = told.value(name, Json::object());
  if (!at.is_object() || !at.contains("number") || !at["number"].is_number_unsigned() ||
      !at.contains("hash") || !at["hash"].is_string())
    return false;
  *point = {at["number"].get<uint64_t>(), at["hash"].get<std::string>()};
  return true;
}

// All rows in order, from after that number; `use` says false to stop.
struct Reader {
  AuditPoint before, newest;
  std::string json;  // as the pool told it, of the last page
  Status Read(const PoolOptions& options, uint64_t after,
              const std::function<bool(uint64_t row, const Json& entry)>& use) {
    pool::PoolAddress address;
    FARCALL_TRY(FindPool(options, &address));
    while (true) {
      google::protobuf::Struct unused;
      FARCALL_TRY(pool::RestCall(
          address, "GET",
          "/v1/audit?limit=" + std::to_string(kPage) + "&after=" + std::to_string(after), nullptr,
          &unused, &json));
      const Json told = Json::parse(json, nullptr, false);
      if (!told.is_object() || !ReadPoint(told, "before", &before) ||
          !ReadPoint(told, "newest", &newest) || !told.value("entries", Json()).is_array())
        return {Code::kMalformed, "the pool's answer cannot be read"};
      if (after < before.number) after = before.number;
      for (const Json& row : told["entries"]) {
        if (!row.is_object() || !row.value("row", Json()).is_number_unsigned())
          return {Code::kMalformed, "the pool's answer cannot be read"};
        after = row["row"].get<uint64_t>();
        if (!use(after, row.value("entry", Json()))) return {};
      }
      if (told["entries"].size() < kPage) return {};
    }
  }
};

std::string TextIn(const Json& entry, const char* name) {
  const Json value = entry.is_object() ? entry.value(name, Json()) : Json();
  return value.is_string() ? Printable(value.get<std::string>(), 400) : "";
}

void Print(uint64_t row, const Json& entry) {
  const Json ms = entry.is_object() ? entry.value("time_ms", Json()) : Json();
  const auto time = static_cast<time_t>(ms.is_number_integer() ? ms.get<int64_t>() / 1000 : 0);
  tm parts{};
  char text[32] = "?";
  if (gmtime_r(&time, &parts) != nullptr)
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  const Json status = entry.is_object() ? entry.value("status", Json()) : Json();
  const bool is_refused = status.is_number_integer() && status.get<int64_t>() == 403;
  std::printf("%llu  %s  %s  %s  %s%s %s  %s\n", static_cast<unsigned long long>(row), text,
              TextIn(entry, "actor").c_str(), TextIn(entry, "source").c_str(),
              is_refused ? "refused: " : "", TextIn(entry, "verb").c_str(),
              TextIn(entry, "object").c_str(), TextIn(entry, "detail").c_str());
}

int List(const PoolOptions& options, uint64_t after) {
  Reader reader;
  const Status read = reader.Read(options, after, [&](uint64_t row, const Json& entry) {
    if (options.json)
      std::printf("%s\n", entry.dump(-1, ' ', true, Json::error_handler_t::replace).c_str());
    else
      Print(row, entry);
    return true;
  });
  return read.ok() ? kExitOk : Fail(read.message());
}

int Verify(const PoolOptions& options, const std::string& known) {
  Reader reader;
  std::unique_ptr<pool::AuditVerifier> verifier;
  std::string wrong;
  bool is_known = known.empty();
  AuditPoint before;
  const Status read = reader.Read(options, 0, [&](uint64_t row, const Json& entry) {
    if (verifier == nullptr) {
      before = reader.before;
      is_known = is_known || before.hash == known;
      verifier = std::make_unique<pool::AuditVerifier>(before);
    }
    wrong = verifier->Next(row, entry);
    is_known = is_known || verifier->last().hash == known;
    return wrong.empty();
  });
  if (!read.ok()) return Fail(read.message());
  if (verifier == nullptr) verifier = std::make_unique<pool::AuditVerifier>(reader.before);
  if (wrong.empty()) wrong = verifier->End(reader.newest);
  if (wrong.empty() && !is_known)
    wrong = "no entry has the hash " + known + ": the chain was written anew, or that one is gone";
  if (!wrong.empty()) return Fail(wrong);
  std::printf("entries %llu to %llu are whole; the newest hash is %s\n",
              static_cast<unsigned long long>(before.number) + 1,
              static_cast<unsigned long long>(reader.newest.number), reader.newest.hash.c_str());
  return kExitOk;
}

}  // namespace

void AddPoolAudit(CLI::App& app, int& exit_code) {
  CLI::App* audit = app.add_subcommand("audit", "Lists who changed what, when and from where");
  auto pool = AddPoolOptions(audit);
  auto after = std::make_shared<uint64_t>(0);
  audit->add_option("--after", *after, "number of an entry: only those after it");
  CLI::App* verify = audit->add_subcommand(
      "verify", "Finds a changed, removed or reordered entry; prints the newest hash");
  auto known = std::make_shared<std::string>();
  auto of = AddPoolOptions(verify);
  verify->add_option("--hash", *known,
                     "hash that an earlier verify printed: it has to be in the chain still");
  verify->footer("Example: farcall pool audit verify --hash 5f0c...");
  verify->callback([of, known, &exit_code] { exit_code = Verify(*of, *known); });
  audit->callback([audit, pool, after, &exit_code] {
    if (audit->get_subcommands().empty()) exit_code = List(*pool, *after);
  });
}

}  // namespace farcall::cli
