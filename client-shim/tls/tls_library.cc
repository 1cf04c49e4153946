// SPDX-License-Identifier: Apache-2.0
#include "client-shim/tls/tls_library.h"

#include "transport/tls/tls_dial.h"

extern "C" __attribute__((visibility("default"))) farcall::Channel* farcall_tls_dial(
    const farcall::Url& url, const farcall::TlsFiles& files, farcall::Clock::time_point deadline,
    farcall::Status* why) {
  using namespace farcall;
  // Anew for each connection: files may have changed, and there are few connections.
  Result<std::shared_ptr<TlsContext>> context = TlsContext::Make(TlsContext::Side::kClient, files);
  if (!context.ok()) {
    *why = context.status();
    return nullptr;
  }
  Result<std::unique_ptr<Channel>> channel = DialTls(url, *context, deadline);
  *why = channel.status();
  return channel.ok() ? channel->release() : nullptr;
}
