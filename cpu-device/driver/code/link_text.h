// SPDX-License-Identifier: Apache-2.0
// Pieces of PTX put together as one text.
#pragma once

#include <string>
#include <vector>

namespace farcall::cpu_device {

// One module of several: the newest version and target hold for all, the headers of the others
// become comments. Names that only their unit knows get another where two have them; others of one
// name in two units are for the parser to judge. `units` is not empty.
std::string LinkText(const std::vector<std::string>& units);

}  // namespace farcall::cpu_device
