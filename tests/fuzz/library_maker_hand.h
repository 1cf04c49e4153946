// SPDX-License-Identifier: Apache-2.0
// Makers of records that no spec describes.
#pragma once

#include "tests/fuzz/library_maker.h"

namespace farcall::fuzz {

std::span<const MakerRow> MakersByHand();

}  // namespace farcall::fuzz
