// SPDX-License-Identifier: Apache-2.0
// Which of CUDA's libraries a server has for thin mode. Their paths are the server's to know.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace farcall::cli {

struct ServerLibrary {
  std::string name;     // "cublas"
  std::string version;  // "13.1.0"; "?": it does not say; "": there is none
};

// Asked by a session of a process apart, in which the server loads each of them; `environment`
// names the server. Empty: it cannot be asked.
std::vector<ServerLibrary> AskServerLibraries(
    const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace farcall::cli
