// SPDX-License-Identifier: Apache-2.0
// What people write for Farcall: the first byte says what the rest is. Settings of a client, of a
// server, a file of verifiers, a file with a token; or one text that every parser of sizes, rates,
// parts, URLs, modes and ids reads. Each takes it or refuses it in one line.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "client-shim/core/settings/settings.h"
#include "proto/handshake/handshake.h"
#include "proto/printable.h"
#include "proto/priority.h"
#include "server/supervisor/options/serve_options.h"
#include "server/supervisor/options/serve_settings.h"
#include "settings/byte_count.h"
#include "settings/byte_rate.h"
#include "settings/percent.h"
#include "transport/url.h"

namespace {

using namespace farcall;

constexpr size_t kMaxLine = 4096;

void Require(bool is_so, const char* what, const std::string& shown = "") {
  if (is_so) return;
  std::fprintf(stderr, "%s: %s\n", what, shown.c_str());
  std::abort();
}

void CheckLine(const std::string& message) {
  Require(message.size() <= kMaxLine && Printable(message, 2 * kMaxLine) == message,
          "a refusal that is not one line of plain text", message);
}

void CheckRefusal(const Status& status) {
  Require(status.ok() == status.message().empty(), "a refusal without a word, or words of none");
  CheckLine(status.message());
}

// A file with these bytes, by name.
class File {
 public:
  explicit File(std::string_view bytes) : fd_(memfd_create("farcall-fuzz", MFD_CLOEXEC)) {
    Require(
        fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
        "no memory file");
  }
  ~File() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

void ReadClient(std::string_view bytes) {
  const File file(bytes);
  const auto settings = client::Settings::Load({file.path()});
  CheckLine(settings.error());
  for (std::string_view name : client::Settings::Names()) {
    const client::Setting setting = settings.Find(name);
    Require(setting.value.empty() == setting.source.empty() || setting.value.empty(),
            "a value from nowhere");
  }
  const std::string scope =
      client::ServerCacheScope(settings.Find("endpoint").value, settings.Find("token").value);
  Require(scope.size() == 32 && scope.find_first_not_of("0123456789abcdef") == scope.npos,
          "a scope that is no file name", scope);
}

// Files that the settings name are those of an empty folder.
std::string WithoutPaths(std::string_view bytes) {
  std::string text(bytes);
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_of_url = i != 0 && (text[i - 1] == ':' || (i > 1 && text[i - 2] == ':'));
    if (text[i] == '/' && !is_of_url) text[i] = '_';
  }
  return text;
}

void ReadServer(std::string_view bytes) {
  const File file(WithoutPaths(bytes));
  server::ServeOptions options;
  const Status read = server::ReadServeConfig(file.path(), &options);
  CheckRefusal(read);
  if (!read.ok()) return;
  CheckRefusal(server::CheckServeOptions(options));
  Require(options.lanes <= kMaxLanes && options.max_sessions >= 1 && options.max_sessions <= 4096 &&
              options.grace_seconds <= 86400 && options.compute.max_share_milli <= 1000 &&
              options.compute.max_limit_milli <= 1000 && options.oversubscribe_milli >= 1000 &&
              options.oversubscribe_milli <= 16000,
          "a setting out of its bounds");
}

void ReadVerifiers(std::string_view bytes) {
  const File file(bytes);
  std::vector<TokenVerifier> tokens;
  CheckRefusal(server::ReadTokenVerifiers(file.path(), &tokens));
  Require(tokens.size() <= kMaxTokens, "more verifiers than are taken");
  for (const TokenVerifier& token : tokens) {
    Result<TokenVerifier> again = ParseVerifier(ToText(token));
    Require(again.ok() && ToText(*again) == ToText(token), "a verifier that does not come back");
  }
}

void ReadToken(std::string_view bytes) {
  const File file(bytes);
  Result<std::string> token = server::ReadTokenFile(file.path());
  CheckRefusal(token.status());
  if (token.ok())
    Require(!token->empty() && token->find('\n') == token->npos, "a token that is no line");
}

void ReadQuantities(std::string_view text) {
  uint64_t bytes = 0, rate = 0, again = 0;
  uint32_t milli = 0;
  const Result<uint64_t> size = server::ParseBytes(text);
  CheckRefusal(size.status());
  Require(ParseByteCount(text, &bytes) == size.ok() && (!size.ok() || bytes == *size),
          "two parsers of sizes");
  const Result<uint32_t> part = server::ParsePercent(text);
  CheckRefusal(part.status());
  if (ParseMilli(text, &milli)) Require(milli <= 1000, "more than a device");
  if (part.ok()) Require(*part >= 1 && *part == milli, "two parsers of parts");
  if (ParseByteRate(text, &rate))
    Require(rate >= kLeastBytesPerSecond && rate <= kMaxBytesPerSecond &&
                ParseByteRate(ByteRateText(rate), &again) && again == rate,
            "a rate that does not come back");
  const Result<uint32_t> factor = server::ParseFactor(text);
  CheckRefusal(factor.status());
  if (factor.ok()) Require(*factor >= 1000 && *factor <= 16000, "a factor out of its bounds");
}

void ReadNames(std::string_view text) {
  CheckRefusal(server::ParsePriority(text).status());
  CheckRefusal(server::ParseModes(text).status());
  const Result<server::UserRange> users = server::ParseUserRange(text);
  CheckRefusal(users.status());
  if (users.ok())
    Require(users->first != 0 && users->count >= 1 && users->first + users->count > users->first,
            "a range with root in it");
  server::ServeOptions options;
  CheckRefusal(server::SetOverhead(text, &options));
  CheckRefusal(server::SetWorkerCalls(text, &options));
  for (const server::ServeSetting& setting : server::ServeSettings())
    if (setting.parse != nullptr && setting.name.find("token") == setting.name.npos)
      CheckRefusal(server::ApplyFlag(setting, std::string(text), &options));
  options.listen = {std::string(text)};
  CheckRefusal(server::CheckServeOptions(options));
  (void)PriorityNumber(text);
}

void ReadUrl(std::string_view text) {
  const Result<Url> url = ParseUrl(text);
  CheckRefusal(url.status());
  (void)IsLoopbackUrl(text);
  if (!url.ok()) return;
  const Result<HostPort> address = ParseHostPort(*url);
  CheckRefusal(address.status());
  if (!address.ok()) return;
  const Result<Url> again = ParseUrl("tcp://" + FormatHostPort(address->host, address->port));
  const Result<HostPort> same = again.ok() ? ParseHostPort(*again) : again.status();
  Require(same.ok() && same->host == address->host && same->port == address->port,
          "an address that does not come back", std::string(text));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  for (std::string_view name : client::Settings::Names()) {
    std::string variable = "FARCALL_" + std::string(name);
    for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    unsetenv(variable.c_str());
  }
  unsetenv("FARCALL_PRIVATE_SERVER");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 5) {
    case 0:
      ReadClient(body);
      break;
    case 1:
      ReadServer(body);
      break;
    case 2:
      ReadVerifiers(body);
      break;
    case 3:
      ReadToken(body);
      break;
    default:
      ReadQuantities(body);
      ReadNames(body);
      ReadUrl(body);
      break;
  }
  return 0;
}
