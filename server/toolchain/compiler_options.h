// SPDX-License-Identifier: Apache-2.0
// Which options of a compiler a client may give. A compiler's option can name a file of the server
// (--options-file, -I, --time), so what is on no list here is refused.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace farcall::server {

enum class Compiler { kNvrtc, kNvJitLink };

// One line that names the first option which is refused, and says so; empty: all are accepted.
// `headers`: the names of the files that came with the program.
std::string RefusedOption(Compiler compiler,
                          const std::vector<std::shared_ptr<const std::string>>& options,
                          const std::vector<std::shared_ptr<const std::string>>& headers);

}  // namespace farcall::server
