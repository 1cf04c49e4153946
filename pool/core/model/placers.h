// SPDX-License-Identifier: Apache-2.0
// The rules by which a place is picked: the one list of them (pool/core/placing/placer.h has what
// each does).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::pool {

// kUnnamed: by what the claim's group says, else the pool; of a claim that is known it is never
// that.
enum class Placer : uint8_t { kPack, kSpread, kFgd, kNear, kTopology, kUnnamed };

// As people write it; of kUnnamed "".
std::string_view ToText(Placer placer);
std::optional<Placer> PlacerOf(std::string_view name);
// Of all but kUnnamed.
std::vector<std::string> PlacerNames();
// "pack, spread, ... or topology", for messages.
std::string PlacersText();

}  // namespace farcall::pool
