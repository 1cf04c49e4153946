// SPDX-License-Identifier: Apache-2.0
// Reading and checking the server's settings.
#include "server/supervisor/options/serve_options.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "proto/printable.h"
#include "proto/text_file.h"
#include "settings/byte_count.h"
#include "settings/byte_rate.h"
#include "settings/decimal.h"
#include "settings/log_line.h"
#include "settings/oversubscribe.h"
#include "settings/percent.h"
#include "transport/url.h"

namespace farcall::server {

void SetToken(std::string* token, ServeOptions* options) {
  options->tokens = {TokenKeys(*token).verifier()};
  options->tokens[0].name = "token";
  Wipe(token);
}

Status ReadTokenVerifiers(const std::string& path, std::vector<TokenVerifier>* tokens) {
  const std::string file = "token verifiers '" + path + "'";
  Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return {Code::kInvalid, file + ": cannot be read: " + text.status().message()};
  std::vector<TokenVerifier> read;
  std::string_view left = *text;
  for (int number = 1; !left.empty(); ++number) {
    std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    std::string where = file + ", line " + std::to_string(number) + ": ";
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || line[0] == '#') continue;
    Result<TokenVerifier> verifier = ParseVerifier(line);
    if (!verifier.ok()) return {Code::kInvalid, where + verifier.status().message()};
    if (read.size() == kMaxTokens)
      return {Code::kInvalid, where + "at most " + std::to_string(kMaxTokens) + " are taken"};
    read.push_back(std::move(*verifier));
  }
  if (read.empty()) return {Code::kInvalid, file + ": there is none in it"};
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
  if (token.empty())
    return Status(Code::kInvalid, "token file '" + path + "': its first line is empty");
  return token;
}

Result<uint32_t> ParseFactor(std::string_view text) {
  uint32_t milli = 0;
  if (!ParseOversubscribe(text, &milli))
    return Status(Code::kInvalid, Quoted(text) + ": " + kOversubscribeForm);
  return milli;
}

Status SetOverhead(std::string_view text, ServeOptions* options) {
  if (text != "tenant" && text != "host")
    return {Code::kInvalid, Quoted(text) + ": write tenant or host"};
  options->charges_overhead = text == "tenant";
  return {};
}

Status SetWorkerCalls(std::string_view text, ServeOptions* options) {
  if (text != "refuse" && text != "report")
    return {Code::kInvalid, Quoted(text) + ": write refuse or report"};
  options->reports_worker_calls = text == "report";
  return {};
}

quota::ComputePolicy SettledPolicy(const ServeOptions& options) {
  quota::ComputePolicy policy = options.compute;
  if (!options.pool.url.empty() && !options.chose_share) policy.max_share_milli = kWholeMilli;
  if (!options.pool.url.empty() && !options.chose_priority)
    policy.max_priority = quota::Priority::kHigh;
  return policy;
}

Result<uint32_t> ParsePercent(std::string_view text) {
  uint32_t milli = 0;
  if (!ParseMilli(text, &milli) || milli == 0)
    return Status(Code::kInvalid, Quoted(text) + ": " + kPartForm);
  return milli;
}

Result<quota::Priority> ParsePriority(std::string_view text) {
  for (quota::Priority each :
       {quota::Priority::kLow, quota::Priority::kNormal, quota::Priority::kHigh})
    if (text == quota::ToText(each)) return each;
  return Status(Code::kInvalid, Quoted(text) + ": choose high, normal or low");
}

Result<uint64_t> ParseBytes(std::string_view text) {
  uint64_t bytes = 0;
  if (!ParseByteCount(text, &bytes))
    return Status(Code::kInvalid, "size '" + Printable(text) + "': " + kByteCountForm);
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
  if (FarcallLogLevelOf(options.log_level.c_str()) < 0) {
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
  if (options.pool.tls.certificate.empty() != options.pool.tls.key.empty())
    return {Code::kInvalid, "--pool-cert and --pool-key belong together: one is missing"};
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
