// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/tls_dial.h"

#include "transport/tcp/tcp_channel.h"
#include "transport/tls/tls_channel.h"

namespace farcall {

Result<std::unique_ptr<Channel>> DialTls(const Url& url, std::shared_ptr<TlsContext> context,
                                         Clock::time_point deadline) {
  Result<HostPort> at = ParseHostPort(url);
  if (!at.ok()) return at.status();
  Result<std::unique_ptr<Channel>> channel = DialTcp(url, deadline);
  if (!channel.ok()) return channel;
  TlsHandshake handshake(std::move(context), **channel, at->host);
  for (;;) {
    Result<TlsHandshake::Progress> progress = handshake.Step();
    if (!progress.ok()) return progress.status();
    if (*progress == TlsHandshake::Progress::kDone)
      return MakeTlsChannel(std::move(*channel), handshake.keys());
    const bool is_ready = *progress == TlsHandshake::Progress::kWantsRead
                              ? (*channel)->WaitReadable(deadline)
                              : (*channel)->WaitWritable(deadline);
    if (!is_ready) {
      return Status(Code::kTimeout, "endpoint \"" + url.text +
                                        "\": no end of the TLS handshake (is it a TLS port?)");
    }
  }
}

}  // namespace farcall
