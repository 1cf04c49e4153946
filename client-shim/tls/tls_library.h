// SPDX-License-Identifier: Apache-2.0
// The one function of libfarcall-tls.so, which holds OpenSSL: an application that dials no tls://
// never loads it.
#pragma once

#include "transport/channel.h"
#include "transport/tls/tls_session.h"
#include "transport/url.h"

namespace farcall::client {

inline constexpr char kTlsLibrary[] = "libfarcall-tls.so.1";
inline constexpr char kTlsFunction[] = "farcall_tls_dial";

// Null: `*why` says why not.
using TlsDial = Channel* (*)(const Url& url, const TlsFiles& files, Clock::time_point deadline,
                             Status* why);

}  // namespace farcall::client
