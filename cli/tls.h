// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::cli {

// Dial knows tls://, by the settings ca, cert and key as they are when it is used.
void UseTls();

}  // namespace farcall::cli
