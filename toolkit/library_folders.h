// SPDX-License-Identifier: Apache-2.0
// Where NVIDIA's libraries lie on this machine.
#pragma once

#include <string>
#include <vector>

namespace farcall {

// The folders that people name, toolkits, and NVIDIA's packages (nvidia/<name>), best first.
std::vector<std::string> LibraryFolders();
std::vector<std::string> ToolkitFolders();
std::vector<std::string> PackageFolders();
// The folders that dlopen searches for a bare name: of the program, with its run paths.
std::vector<std::string> LoaderFolders();
// The file that ldconfig's cache names for it; empty: none.
std::string LoaderCachePath(const std::string& file);
// Packages (nvidia/<name>) in the site-packages that this process has loaded something from.
std::vector<std::string> LoadedPackageFolders();

// Where lib<name>.so.<major> may lie, the bare name for the loader last; none of Farcall's own.
// kBestFirst: of what was not named by folder the newest; kAsFound reads no package's record.
enum class Order { kBestFirst, kAsFound };
std::vector<std::string> LibraryCandidates(const std::string& file,
                                           Order order = Order::kBestFirst);
// Whether this file is one of ours, which are named as the real ones.
bool IsOursByFolder(const std::string& file);

}  // namespace farcall
