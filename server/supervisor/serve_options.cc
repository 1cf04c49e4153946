// SPDX-License-Identifier: Apache-2.0
// Reading and checking the server's settings.
#include "server/supervisor/serve_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "proto/byte_count.h"
#include "proto/byte_rate.h"
#include "proto/decimal.h"
#include "proto/nearest.h"
#include "proto/percent.h"
#include "proto/printable.h"
#include "proto/settings_file.h"
#include "proto/text_file.h"
#include "transport/url.h"

namespace farcall::server {

namespace {

constexpr std::array<std::string_view, 49> kSettings = {"listen",
                                                        "device",
                                                        "gpus",
                                                        "token",
                                                        "token_file",
                                                        "mem",
                                                        "grace",
                                                        "drain",
                                                        "lanes",
                                                        "max_share",
                                                        "max_limit",
                                                        "max_priority",
                                                        "control",
                                                        "audit",
                                                        "metrics",
                                                        "log_level",
                                                        "max_sessions",
                                                        "config_version",
                                                        "worker_users",
                                                        "host_mem",
                                                        "pool",
                                                        "pool_name",
                                                        "pool_token_file",
                                                        "advertise",
                                                        "oversubscribe",
                                                        "park_after",
                                                        "swap_host_mem",
                                                        "max_net",
                                                        "mode",
                                                        "worker_memory",
                                                        "pool_ca",
                                                        "overhead",
                                                        "token_verifier",
                                                        "trust_tenants",
                                                        "worker_calls",
                                                        "debuggable",
                                                        "max_tenant_sessions",
                                                        "warm_workers",
                                                        "image_store_max",
                                                        "tenant_mem",
                                                        "tls_cert",
                                                        "tls_key",
                                                        "tls_client_ca",
                                                        "tls_crl",
                                                        "shm",
                                                        "shm_users",
                                                        "plaintext",
                                                        "pool_cert",
                                                        "pool_key"};
constexpr std::array<std::string_view, 6> kLogLevels = {"off",  "error", "warn",
                                                        "info", "debug", "trace"};

Status Wrong(const std::string& path, std::string_view name, const std::string& right) {
  return {Code::kInvalid, path + ": setting '" + std::string(name) + "' takes " + right};
}

Status ReadNumber(const std::string& path, std::string_view name, const SettingValue& value,
                  int64_t least, int64_t most, uint32_t* into) {
  const auto* number = std::get_if<int64_t>(&value);
  if (number == nullptr || *number < least || *number > most) {
    return Wrong(path, name,
                 "a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  *into = static_cast<uint32_t>(*number);
  return {};
}

Status ReadFlag(const std::string& path, std::string_view name, const SettingValue& value,
                bool* into) {
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr) {
    return Wrong(path, name, "true or false");
  }
  *into = *flag;
  return {};
}

Status ReadListen(const std::string& path, const SettingValue& value, ServeOptions* options) {
  options->listen.clear();
  if (const auto* one = std::get_if<std::string>(&value)) {
    options->listen.push_back(*one);
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    options->listen = *list;
  }
  return options->listen.empty() ? Wrong(path, "listen", "a URL or a list of URLs") : Status();
}

Status ReadText(const std::string& path, std::string_view name, const SettingValue& value,
                ServeOptions* options) {
  std::optional<std::string> text;
  if (const auto* given = std::get_if<std::string>(&value)) {
    text = *given;
  }
  bool is_size = name == "mem" || name == "host_mem" || name == "swap_host_mem" ||
                 name == "worker_memory" || name == "image_store_max" || name == "tenant_mem";
  if (is_size && !text) {
    const auto* bytes = std::get_if<int64_t>(&value);
    if (bytes == nullptr || *bytes < 0) {
      return Wrong(path, name, "a size such as \"4GiB\"");
    }
    text = std::to_string(*bytes);
  }
  if (!text) {
    return Wrong(path, name, "a text");
  }
  const std::pair<std::string_view, std::string*> texts[] = {
      {"device", &options->device},
      {"gpus", &options->gpus},
      {"log_level", &options->log_level},
      {"control", &options->control},
      {"audit", &options->audit},
      {"metrics", &options->metrics},
      {"tls_cert", &options->tls.certificate},
      {"tls_key", &options->tls.key},
      {"tls_client_ca", &options->tls.authorities},
      {"tls_crl", &options->tls.revoked},
      {"pool", &options->pool.url},
      {"pool_ca", &options->pool.tls.authorities},
      {"pool_name", &options->pool.name},
      {"pool_cert", &options->pool.tls.certificate},
      {"pool_key", &options->pool.tls.key},
  };
  for (const auto& [known, into] : texts) {
    if (name == known) {
      *into = *text;
    }
  }
  if (name == "token") {
    SetToken(&*text, options);
  }
  if (name == "token_verifier") {
    FARCALL_TRY(ReadTokenVerifiers(*text, &options->tokens));
  }
  if (name == "worker_users") {
    Result<UserRange> range = ParseUserRange(*text);
    if (!range.ok()) {
      return {Code::kInvalid, path + ": setting 'worker_users': " + range.status().message()};
    }
    options->worker_users = *range;
  }
  if (name == "worker_calls") {
    Status set = SetWorkerCalls(*text, options);
    if (!set.ok()) {
      return {Code::kInvalid, path + ": setting 'worker_calls': " + set.message()};
    }
  }
  if (name == "overhead") {
    Status set = SetOverhead(*text, options);
    if (!set.ok()) {
      return {Code::kInvalid, path + ": setting 'overhead': " + set.message()};
    }
  }
  if (name == "shm" || name == "shm_users") {
    Status set = name == "shm" ? SetShm(*text, options) : SetShmUsers(*text, options);
    if (!set.ok()) {
      return {Code::kInvalid, path + ": setting '" + std::string(name) + "': " + set.message()};
    }
  }
  if (name == "advertise") {
    options->pool.advertise = {*text};
  }
  if (name == "pool_token_file") {
    Result<std::string> token = ReadTokenFile(*text);
    if (!token.ok()) {
      return token.status();
    }
    options->pool.join_token = *token;
  }
  if (name == "token_file") {
    Result<std::string> token = ReadTokenFile(*text);
    if (!token.ok()) {
      return token.status();
    }
    SetToken(&*token, options);
  }
  if (name == "max_share" || name == "max_limit" || name == "max_priority") {
    Status set = SetPolicy(name, *text, &options->compute);
    if (!set.ok()) {
      return {Code::kInvalid, path + ": setting '" + std::string(name) + "': " + set.message()};
    }
    NotePolicy(name, options);
  }
  if (name == "mode") {
    Result<DeviceModes> modes = ParseModes(*text);
    if (!modes.ok()) {
      return {Code::kInvalid, path + ": setting 'mode': " + modes.status().message()};
    }
    options->modes = *modes;
  }
  if (name == "max_net" && !ParseByteRate(*text, &options->max_net_bytes_per_s)) {
    return Wrong(path, name, std::string("a budget: ") + kByteRateForm);
  }
  if (is_size) {
    Result<uint64_t> bytes = ParseBytes(*text);
    if (!bytes.ok()) {
      return {Code::kInvalid,
              path + ": setting '" + std::string(name) + "': " + bytes.status().message()};
    }
    (name == "mem"               ? options->memory_bytes
     : name == "host_mem"        ? options->host_memory_bytes
     : name == "worker_memory"   ? options->worker_memory_bytes
     : name == "image_store_max" ? options->image_store_bytes
     : name == "tenant_mem"      ? options->tenant_memory_bytes
                                 : options->swap_host_bytes) = *bytes;
  }
  return {};
}

std::string FactorText(const SettingValue& value) {
  if (const auto* number = std::get_if<double>(&value)) {
    return std::to_string(*number);
  }
  const auto* number = std::get_if<int64_t>(&value);
  return number == nullptr ? "" : std::to_string(*number);
}

Status ReadConfigText(std::string_view text, const std::string& path, ServeOptions* options) {
  Result<SettingTable> table = ParseSettings(text, path);
  FARCALL_TRY(table.status());
  for (const auto& [name, value] : *table) {
    if (std::find(kSettings.begin(), kSettings.end(), name) == kSettings.end()) {
      return {Code::kInvalid, path + ": unknown setting '" + name + "'; the nearest is '" +
                                  std::string(Nearest(name, kSettings)) + "'"};
    }
    if (name == "listen") {
      FARCALL_TRY(ReadListen(path, value, options));
    } else if (name == "grace") {
      FARCALL_TRY(ReadNumber(path, name, value, 0, 86400, &options->grace_seconds));
    } else if (name == "drain") {
      FARCALL_TRY(ReadNumber(path, name, value, 0, 86400, &options->drain_seconds));
    } else if (name == "max_sessions") {
      FARCALL_TRY(ReadNumber(path, name, value, 1, 4096, &options->max_sessions));
    } else if (name == "max_tenant_sessions") {
      FARCALL_TRY(ReadNumber(path, name, value, 1, 4096, &options->max_tenant_sessions));
    } else if (name == "warm_workers") {
      FARCALL_TRY(ReadNumber(path, name, value, 0, kMaxWarmWorkers, &options->warm_workers));
    } else if (name == "park_after") {
      FARCALL_TRY(ReadNumber(path, name, value, 0, 86400, &options->park_after_seconds));
    } else if (name == "trust_tenants") {
      FARCALL_TRY(ReadFlag(path, name, value, &options->trust_tenants));
    } else if (name == "plaintext") {
      FARCALL_TRY(ReadFlag(path, name, value, &options->plaintext));
    } else if (name == "debuggable") {
      FARCALL_TRY(ReadFlag(path, name, value, &options->debuggable));
    } else if (name == "oversubscribe") {
      Result<uint32_t> factor = ParseFactor(FactorText(value));
      if (!factor.ok()) {
        return Wrong(path, name, "a number from 1 to 16, such as 1.8");
      }
      options->oversubscribe_milli = *factor;
    } else if (name == "lanes") {
      FARCALL_TRY(ReadNumber(path, name, value, 1, 8, &options->lanes));
    } else if (name != "config_version") {
      FARCALL_TRY(ReadText(path, name, value, options));
    }
  }
  return {};
}

}  // namespace

Status ReadServeConfig(const std::string& path, ServeOptions* options) {
  Result<std::string> text = ReadTextFile(path);
  Status read = text.ok()
                    ? ReadConfigText(*text, path, options)
                    : Status(Code::kInvalid, path + ": cannot be read: " + text.status().message());
  return read.ok() ? read : Status(read.code(), Printable(read.message(), kMaxMessageBytes));
}

void SetToken(std::string* token, ServeOptions* options) {
  options->tokens = {TokenKeys(*token).verifier()};
  options->tokens[0].name = "token";
  Wipe(token);
}

Status ReadTokenVerifiers(const std::string& path, std::vector<TokenVerifier>* tokens) {
  const std::string file = "token verifiers '" + path + "'";
  Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) {
    return {Code::kInvalid, file + ": cannot be read: " + text.status().message()};
  }
  std::vector<TokenVerifier> read;
  std::string_view left = *text;
  for (int number = 1; !left.empty(); ++number) {
    std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    std::string where = file + ", line " + std::to_string(number) + ": ";
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || line[0] == '#') {
      continue;
    }
    Result<TokenVerifier> verifier = ParseVerifier(line);
    if (!verifier.ok()) {
      return {Code::kInvalid, where + verifier.status().message()};
    }
    if (read.size() == kMaxTokens) {
      return {Code::kInvalid, where + "at most " + std::to_string(kMaxTokens) + " are taken"};
    }
    read.push_back(std::move(*verifier));
  }
  if (read.empty()) {
    return {Code::kInvalid, file + ": there is none in it"};
  }
  *tokens = std::move(read);
  return {};
}

Result<std::string> ReadTokenFile(const std::string& path) {
  constexpr size_t kMaxTokenFileBytes = 64u << 10;
  Result<std::string> text = ReadTextFile(path, kMaxTokenFileBytes);
  if (!text.ok()) {
    return Status(Code::kInvalid,
                  "token file '" + path + "': cannot be read: " + text.status().message());
  }
  std::string token = text->substr(0, text->find('\n'));
  auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  token.erase(token.begin(), std::find_if_not(token.begin(), token.end(), is_space));
  token.erase(std::find_if_not(token.rbegin(), token.rend(), is_space).base(), token.end());
  if (token.empty()) {
    return Status(Code::kInvalid, "token file '" + path + "': its first line is empty");
  }
  return token;
}

Result<uint32_t> ParseFactor(std::string_view text) {
  constexpr uint32_t kMax = 16'000, kMillionth = kBillion / 1000;
  Decimal number;
  bool is_number = ReadDecimal(text, &number) && number.rest.empty() && number.whole <= kMax;
  uint64_t milli = number.whole * 1000 + (number.billionths + kMillionth / 2) / kMillionth;
  if (!is_number || milli < 1000 || milli > kMax) {
    return Status(Code::kInvalid, Quoted(text) + ": write a number from 1 to 16, such as 1.8");
  }
  return static_cast<uint32_t>(milli);
}

Status SetOverhead(std::string_view text, ServeOptions* options) {
  if (text != "tenant" && text != "host") {
    return {Code::kInvalid, Quoted(text) + ": write tenant or host"};
  }
  options->charges_overhead = text == "tenant";
  return {};
}

Status SetWorkerCalls(std::string_view text, ServeOptions* options) {
  if (text != "refuse" && text != "report") {
    return {Code::kInvalid, Quoted(text) + ": write refuse or report"};
  }
  options->reports_worker_calls = text == "report";
  return {};
}

Status SetPolicy(std::string_view name, std::string_view text, quota::ComputePolicy* policy) {
  if (name == "max_priority") {
    Result<quota::Priority> priority = ParsePriority(text);
    if (priority.ok()) {
      policy->max_priority = *priority;
    }
    return priority.status();
  }
  Result<uint32_t> milli = ParsePercent(text);
  if (milli.ok()) {
    (name == "max_share" ? policy->max_share_milli : policy->max_limit_milli) = *milli;
  }
  return milli.status();
}

void NotePolicy(std::string_view name, ServeOptions* options) {
  options->chose_share = options->chose_share || name == "max_share";
  options->chose_priority = options->chose_priority || name == "max_priority";
}

quota::ComputePolicy SettledPolicy(const ServeOptions& options) {
  quota::ComputePolicy policy = options.compute;
  if (!options.pool.url.empty() && !options.chose_share) {
    policy.max_share_milli = quota::kWholeMilli;
  }
  if (!options.pool.url.empty() && !options.chose_priority) {
    policy.max_priority = quota::Priority::kHigh;
  }
  return policy;
}

Result<uint32_t> ParsePercent(std::string_view text) {
  uint32_t milli = 0;
  if (!ParseMilli(text, &milli) || milli == 0) {
    return Status(Code::kInvalid, Quoted(text) + ": " + kPartForm);
  }
  return milli;
}

Result<quota::Priority> ParsePriority(std::string_view text) {
  for (quota::Priority each :
       {quota::Priority::kLow, quota::Priority::kNormal, quota::Priority::kHigh}) {
    if (text == quota::ToText(each)) {
      return each;
    }
  }
  return Status(Code::kInvalid, Quoted(text) + ": choose high, normal or low");
}

Result<uint64_t> ParseBytes(std::string_view text) {
  uint64_t bytes = 0;
  if (!ParseByteCount(text, &bytes)) {
    return Status(Code::kInvalid, "size '" + Printable(text) + "': " + kByteCountForm);
  }
  return bytes;
}

Status CheckServeOptions(const ServeOptions& options) {
  FARCALL_TRY(CheckTransports(options));
  for (const std::string& url : options.listen) {
    FARCALL_TRY(ParseUrl(url).status());
    const bool wants_certificates = url.rfind("tls://", 0) == 0 && !options.tls.authorities.empty();
    if (options.tokens.empty() && options.pool.url.empty() && !wants_certificates &&
        !IsLoopbackUrl(url)) {
      return {Code::kInvalid, "listen '" + Printable(url) +
                                  "': an address other than the loopback needs --token-file, "
                                  "--token-verifier, or tls:// with --tls-client-ca"};
    }
  }
  if (std::find(kLogLevels.begin(), kLogLevels.end(), options.log_level) == kLogLevels.end()) {
    return {Code::kInvalid, "log level '" + Printable(options.log_level) +
                                "': choose off, error, warn, info, debug or trace"};
  }
  if (options.memory_bytes != 0 && options.memory_bytes < kLeastMemoryBytes) {
    return {Code::kInvalid, "memory of a vGPU: " + std::to_string(options.memory_bytes) +
                                " bytes are " + kLittleMemory};
  }
  const std::string& pool = options.pool.url;
  if (!pool.empty() && pool.rfind("http://", 0) != 0 && pool.rfind("https://", 0) != 0) {
    return {Code::kInvalid, "pool '" + Printable(pool) +
                                "': hosts join at the pool's REST, http://host:7719 or "
                                "https://host:7719"};
  }
  if (options.pool.tls.certificate.empty() != options.pool.tls.key.empty()) {
    return {Code::kInvalid, "--pool-cert and --pool-key belong together: one is missing"};
  }
  if (options.modes.Any(DeviceMode::kMps) && options.worker_users.count != 0) {
    return {Code::kInvalid,
            "mode mps: an MPS server has clients of one user, so it goes without --worker-users"};
  }
  if (options.worker_users.count != 0 && geteuid() != 0) {
    return {Code::kInvalid,
            "worker users: only root can start workers as other users; this server runs as user " +
                std::to_string(geteuid())};
  }
  return {};
}

}  // namespace farcall::server
