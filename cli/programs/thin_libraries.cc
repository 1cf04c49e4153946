// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/thin_libraries.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cli/programs/client_environment.h"
#include "client-shim/audit/thin_groups.h"

namespace farcall::cli {

std::string ThinLibraryFolder() {
  const std::string folder = DriverLibraryFolder() + "/thin";
  return access(folder.c_str(), R_OK | X_OK) == 0 ? folder : std::string();
}

ThinLibraries FindThinLibraries(const std::string& folder) {
  ThinLibraries found;
  for (const auto& group : kThinGroups) {
    std::vector<std::string> here, missing;
    for (const char* name : group) {
      if (name == nullptr) break;
      const bool is_here = access((folder + "/" + name).c_str(), R_OK) == 0;
      (is_here ? here : missing).push_back(name);
    }
    auto& list = missing.empty() ? found.ours : found.alone;
    list.insert(list.end(), here.begin(), here.end());
    found.absent.insert(found.absent.end(), missing.begin(), missing.end());
  }
  return found;
}

std::string WholeOf(const std::string& name) {
  for (const auto& part : kThinParts)
    if (name.compare(0, std::strlen(part.start), part.start) == 0 &&
        name.find(part.inside) != std::string::npos)
      return part.whole;
  return name;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

}  // namespace farcall::cli
