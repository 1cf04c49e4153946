// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::cudart {

// Where XLA is in the process and would find no libdevice.10.bc: names the folder of the server's
// by XLA_FLAGS, when its kernels are registered, ahead of its reading them; fills it once CUDA has
// begun. Begins nothing itself.
void OfferLibdevice();

}  // namespace farcall::cudart
