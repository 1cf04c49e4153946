// SPDX-License-Identifier: Apache-2.0
// The table of transports, and the blocking helpers on top of any of them.
#include "transport/channel.h"

#include <array>

#include "transport/inproc/inproc_channel.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/url.h"

namespace farcall {
namespace {

struct Transport {
  std::string_view scheme;
  Result<std::unique_ptr<Channel>> (*dial)(const Url& url, Clock::time_point deadline);
  Result<std::unique_ptr<Listener>> (*listen)(const Url& url);
};

// A new transport adds its line here and nothing elsewhere. Null functions: a known name that is
// not built in.
constexpr std::array<Transport, 6> kTransports = {{
    {"tcp", &DialTcp, &ListenTcp},
    {"inproc", &DialInproc, &ListenInproc},
    {"shm", nullptr, nullptr},
    {"verbs", nullptr, nullptr},
    {"ucx", nullptr, nullptr},
    {"tls", nullptr, nullptr},
}};

Status NotBuiltIn(const Url& url) {
  std::string have;
  for (const Transport& transport : kTransports) {
    if (transport.dial == nullptr) {
      continue;
    }
    have.append(have.empty() ? "" : ", ").append(transport.scheme).append("://");
  }
  return {Code::kUnsupported, "endpoint \"" + url.text + "\": transport \"" + url.scheme +
                                  "\" is not built in; have " + have};
}

const Transport* Find(const Url& url) {
  for (const Transport& transport : kTransports) {
    if (transport.scheme == url.scheme && transport.dial != nullptr) {
      return &transport;
    }
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Channel>> Dial(std::string_view text, Clock::time_point deadline) {
  Result<Url> url = ParseUrl(text);
  if (!url.ok()) {
    return url.status();
  }
  const Transport* transport = Find(*url);
  if (transport == nullptr) {
    return NotBuiltIn(*url);
  }
  return transport->dial(*url, deadline);
}

Result<std::unique_ptr<Listener>> Listen(std::string_view text) {
  Result<Url> url = ParseUrl(text);
  if (!url.ok()) {
    return url.status();
  }
  const Transport* transport = Find(*url);
  if (transport == nullptr) {
    return NotBuiltIn(*url);
  }
  return transport->listen(*url);
}

Status SendAll(Channel& channel, std::span<const std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    Result<size_t> sent = channel.TrySend({&bytes, 1});
    if (!sent.ok()) {
      return sent.status();
    }
    bytes = bytes.subspan(*sent);
    if (*sent == 0 && !channel.WaitWritable(deadline)) {
      return {Code::kTimeout, channel.PeerName() + ": takes no bytes, " +
                                  std::to_string(bytes.size()) + " left to send"};
    }
  }
  return {};
}

Status ReceiveAll(Channel& channel, std::span<std::byte> into, Clock::time_point deadline) {
  while (!into.empty()) {
    Result<size_t> got = channel.TryReceive(into);
    if (!got.ok()) {
      return got.status();
    }
    into = into.subspan(*got);
    if (*got == 0 && !channel.WaitReadable(deadline)) {
      return {Code::kTimeout, channel.PeerName() + ": sends nothing, " +
                                  std::to_string(into.size()) + " bytes expected"};
    }
  }
  return {};
}

}  // namespace farcall
