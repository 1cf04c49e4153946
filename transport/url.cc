// SPDX-License-Identifier: Apache-2.0
#include "transport/url.h"

#include <algorithm>
#include <charconv>

#include "proto/printable.h"
#include "transport/run_folder.h"

namespace farcall {
namespace {

constexpr size_t kMaxUrlBytes = 4096, kMaxShownUrlBytes = 200;

Status Bad(std::string_view text, std::string_view why) {
  std::string message = "endpoint \"";
  message.append(Printable(text, kMaxShownUrlBytes)).append("\": ").append(why);
  return {Code::kInvalid, message};
}

// Those of a server's that name a host and a port.
bool IsByAddress(std::string_view scheme) {
  return scheme == "tcp" || scheme == "tls" || scheme == "ucx" || scheme == "verbs";
}

bool IsSchemeChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+';
}

// None of a name or an address holds brackets, spaces, control characters or a path.
bool IsHostChar(unsigned char c) {
  return c > ' ' && c != 127 && c != '[' && c != ']' && c != '/';
}

}  // namespace

Result<Url> ParseUrl(std::string_view text) {
  size_t colon = text.find("://");
  if (text.size() > kMaxUrlBytes) return Bad(text, "longer than 4096 characters");
  if (colon == std::string_view::npos || colon == 0)
    return Bad(text, "has no transport; write tcp://host:port");
  Url url{std::string(text), std::string(text.substr(0, colon)),
          std::string(text.substr(colon + 3))};
  if (!std::all_of(url.scheme.begin(), url.scheme.end(), IsSchemeChar))
    return Bad(text, "has no valid transport name; write tcp://host:port");
  if (url.rest.empty()) return Bad(text, "names no address; write tcp://host:port");
  return url;
}

Result<HostPort> ParseHostPort(const Url& url) {
  std::string_view rest = url.rest;
  if (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  HostPort result;
  size_t colon = rest.rfind(':');
  if (!rest.empty() && rest.front() == '[') {
    size_t close = rest.find(']');
    if (close == std::string_view::npos || colon != close + 1)
      return Bad(url.text, "an IPv6 address is written [address]:port");
    result.host = rest.substr(1, close - 1);
  } else {
    if (colon == std::string_view::npos) return Bad(url.text, "names no port; write host:port");
    result.host = rest.substr(0, colon);
    if (result.host.find(':') != std::string::npos)
      return Bad(url.text, "an IPv6 address is written [address]:port");
  }
  if (result.host.empty()) return Bad(url.text, "names no host; write host:port");
  if (!std::all_of(result.host.begin(), result.host.end(), IsHostChar))
    return Bad(url.text, "no host has such a name; write host:port");
  std::string_view digits = rest.substr(colon + 1);
  uint32_t port = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() ||
      port > 65535)
    return Bad(url.text, "the port is a number from 0 to 65535");
  result.port = static_cast<uint16_t>(port);
  return result;
}

Result<std::string> WholeEndpoint(std::string_view text) {
  std::string whole(text);
  if (text == "shm://") return whole + DefaultShmPath();
  if (text.find("://") == std::string_view::npos) whole.insert(0, "tcp://");
  Result<Url> url = ParseUrl(whole);
  if (!url.ok()) return url.status();
  const bool is_pool = url->scheme == "pool" || url->scheme == "pools";
  if (!is_pool && !IsByAddress(url->scheme)) return whole;
  std::string& rest = url->rest;
  if (rest.back() == '/') rest.pop_back();
  const bool is_v6 = rest.size() > 1 && rest.front() == '[';
  if (is_v6 ? rest.back() == ']' : rest.find(':') == std::string::npos)
    rest.append(":").append(std::to_string(is_pool ? kPoolPort : kServerPort));
  Result<HostPort> address = ParseHostPort(*url);
  if (!address.ok()) return address.status();
  return url->scheme + "://" + rest;
}

std::vector<std::string> SplitEndpoints(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  parts.emplace_back(text);
  return parts;
}

Result<std::string> WholeEndpoints(std::string_view text) {
  if (text.find(',') == std::string_view::npos) return WholeEndpoint(text);
  const std::vector<std::string> parts = SplitEndpoints(text);
  if (parts.size() > kMaxEndpoints)
    return Bad(text, "a list names " + std::to_string(kMaxEndpoints) + " servers at most");
  std::vector<std::string> seen;
  std::string list;
  for (const std::string& part : parts) {
    Result<std::string> whole = WholeEndpoint(part);
    if (!whole.ok()) return whole.status();
    if (IsPoolUrl(*whole)) return Bad(text, "a list names servers; a pool stands alone");
    if (std::find(seen.begin(), seen.end(), *whole) != seen.end())
      return Bad(text, "it names " + *whole + " twice");
    seen.push_back(*whole);
    list += (list.empty() ? "" : ",") + *whole;
  }
  return list;
}

std::string FormatHostPort(std::string_view host, uint16_t port) {
  std::string text(host);
  if (host.find(':') != std::string_view::npos) text = "[" + text + "]";
  return text + ":" + std::to_string(port);
}

bool IsLoopbackUrl(std::string_view url) {
  size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return false;
  if (!IsByAddress(url.substr(0, scheme))) {
    return true;
  }  // does not leave the host
  std::string_view host = url.substr(scheme + 3);
  if (!host.empty() && host[0] == '[') return host.substr(0, host.find(']') + 1) == "[::1]";
  host = host.substr(0, host.rfind(':'));
  if (host == "localhost") return true;
  // An address, not a name that begins like one.
  return host.rfind("127.", 0) == 0 &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace farcall
