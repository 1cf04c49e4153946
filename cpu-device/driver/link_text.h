// SPDX-License-Identifier: Apache-2.0
// Pieces of PTX put together as one text.
#pragma once

#include <string>
#include <vector>

namespace farcall::cpu_device {

// One module of several: the newest version and target hold for all, the headers of the others
// become comments. Symbols of one name in two inputs are for the parser to judge. `inputs` is not
// empty.
std::string LinkText(const std::vector<std::string>& inputs);

}  // namespace farcall::cpu_device
