// SPDX-License-Identifier: Apache-2.0
// Which of CUDA's libraries a server has for thin mode. Their paths are the server's to know.
#pragma once

#include <nlohmann/json.hpp>
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

// For people and for machines.
std::string LibraryLine(const ServerLibrary& library);
nlohmann::ordered_json LibraryList(const std::vector<ServerLibrary>& libraries);

}  // namespace farcall::cli
