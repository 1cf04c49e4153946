// SPDX-License-Identifier: Apache-2.0
// The table of transports: which scheme is whose. Dial, Listen and AddTransport of channel.h.
#include <algorithm>
#include <array>
#include <atomic>

#include "transport/channel.h"
#include "transport/inproc/inproc_channel.h"
#include "transport/shm/shm_socket.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/url.h"

namespace farcall {
namespace {

struct Transport {
  std::string_view scheme;
  std::atomic<Dialer> dial;
  std::atomic<Opener> listen;
};

// A new transport adds its line here and nothing elsewhere. Null functions: a known name that is
// not built in, or not yet added.
std::array<Transport, 6> g_transports = {{
    {"tcp", &DialTcp, &ListenTcp},
    {"inproc", &DialInproc, &ListenInproc},
    {"shm", &DialShm, &ListenShm},
    {"verbs", &DialTcp, &ListenTcp},  // begin on a socket; what follows is that of transport/verbs/
    {"ucx", &DialTcp, &ListenTcp},    // and transport/ucx/
    {"tls", nullptr, nullptr},
}};

Status NotBuiltIn(const Url& url) {
  std::string have;
  for (const Transport& transport : g_transports) {
    if (transport.dial == nullptr && transport.listen == nullptr) continue;
    have.append(have.empty() ? "" : ", ").append(transport.scheme).append("://");
  }
  return {Code::kUnsupported, "endpoint \"" + url.text + "\": transport \"" + url.scheme +
                                  "\" is not built in; have " + have};
}

Transport* Find(std::string_view scheme) {
  auto found = std::find_if(g_transports.begin(), g_transports.end(),
                            [&](const Transport& each) { return each.scheme == scheme; });
  return found == g_transports.end() ? nullptr : &*found;
}

}  // namespace

void AddTransport(std::string_view scheme, Dialer dial, Opener listen) {
  if (Transport* transport = Find(scheme)) {
    transport->dial = dial;
    transport->listen = listen;
  }
}

Result<std::unique_ptr<Channel>> Dial(std::string_view text, Clock::time_point deadline) {
  Result<Url> url = ParseUrl(text);
  if (!url.ok()) return url.status();
  const Transport* transport = Find(url->scheme);
  const Dialer dial = transport == nullptr ? nullptr : transport->dial.load();
  return dial == nullptr ? NotBuiltIn(*url) : dial(*url, deadline);
}

Result<std::unique_ptr<Listener>> Listen(std::string_view text) {
  Result<Url> url = ParseUrl(text);
  if (!url.ok()) return url.status();
  const Transport* transport = Find(url->scheme);
  const Opener listen = transport == nullptr ? nullptr : transport->listen.load();
  return listen == nullptr ? NotBuiltIn(*url) : listen(*url);
}

}  // namespace farcall
