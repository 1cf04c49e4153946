// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client-shim/core/settings/settings.h"

namespace farcall::client {

// From here on Dial knows tls://, by libfarcall-tls.so beside this library and the settings ca,
// cert and key.   Thread  any; once
void UseTls(const Settings& settings);

}  // namespace farcall::client
