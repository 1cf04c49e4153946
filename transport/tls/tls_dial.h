// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/channel.h"
#include "transport/tls/tls_session.h"
#include "transport/url.h"

namespace farcall {

// Dials tls://host:port and shakes hands with whoever proves to be `host`.
//   Errors  as DialTcp and TlsHandshake; kTimeout
//   Thread  any; blocks
Result<std::unique_ptr<Channel>> DialTls(const Url& url, std::shared_ptr<TlsContext> context,
                                         Clock::time_point deadline);

}  // namespace farcall
