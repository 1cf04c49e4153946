// SPDX-License-Identifier: Apache-2.0
// Several fatbin containers as one image: a program of several translation units of relocatable
// code, which the driver links at the load. Only to a server with SessionFeature::kImageUnits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace farcall {

// {u64 magic, then for each unit {u64 bytes, bytes, zeros up to a multiple of 8}}
std::vector<std::byte> JoinImageUnits(std::span<const std::vector<std::byte>> units);

// What the first bytes say; an image of any other kind begins otherwise.
bool HoldsImageUnits(std::span<const std::byte> image);

// The units, as parts of `image`, each on a multiple of 8 from its beginning. False: from a peer
// that lies.
bool SplitImageUnits(std::span<const std::byte> image,
                     std::vector<std::span<const std::byte>>* units);

}  // namespace farcall
