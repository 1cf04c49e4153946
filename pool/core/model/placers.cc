// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/placers.h"

#include <algorithm>
#include <array>

namespace farcall::pool {

namespace {

// [Placer]
constexpr std::array<std::string_view, 6> kNames = {"pack", "spread",   "fgd",
                                                    "near", "topology", ""};

}  // namespace

std::string_view ToText(Placer placer) {
  return kNames[static_cast<size_t>(placer)];
}

std::optional<Placer> PlacerOf(std::string_view name) {
  auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Placer>(found - kNames.begin());
}

std::vector<std::string> PlacerNames() {
  return {kNames.begin(), kNames.end() - 1};
}

std::string PlacersText() {
  const std::vector<std::string> names = PlacerNames();
  std::string text = names.front();
  for (size_t i = 1; i < names.size(); ++i)
    text += (i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

}  // namespace farcall::pool
