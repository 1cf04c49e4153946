// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects of a context that ends.
#pragma once

#include "client-shim/core/session/contexts.h"

namespace farcall::client {

void DropContextTextures(Context* context);

}  // namespace farcall::client
