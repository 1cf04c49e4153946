// SPDX-License-Identifier: Apache-2.0
#include "cli/tls.h"

#include "client-shim/core/settings/settings.h"
#include "transport/tls/tls_dial.h"

namespace farcall::cli {

namespace {

Result<std::unique_ptr<Channel>> DialBySettings(const Url& url, Clock::time_point deadline) {
  using client::Settings;
  const Settings settings = Settings::Load(Settings::Files());
  Result<std::shared_ptr<TlsContext>> context =
      TlsContext::Make(TlsContext::Side::kClient, {.certificate = settings.Find("cert").value,
                                                   .key = settings.Find("key").value,
                                                   .authorities = settings.Find("ca").value,
                                                   .revoked = ""});
  if (!context.ok()) return context.status();
  return DialTls(url, *context, deadline);
}

}  // namespace

void UseTls() {
  AddTransport("tls", &DialBySettings, nullptr);
}

}  // namespace farcall::cli
