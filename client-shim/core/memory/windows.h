// SPDX-License-Identifier: Apache-2.0
// Address windows the client reserves before HELLO, so that device addresses can be equal on both
// sides.
#pragma once

#include <vector>

#include "proto/wire.h"

namespace farcall::client {

// Reserves without backing, at bases that are free in this process, best first. Under an
// address-space limit: fewer or none.
std::vector<Window> ReserveDeviceWindows();
void ReleaseWindow(const Window& window);

}  // namespace farcall::client
