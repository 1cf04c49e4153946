// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/control_path.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace farcall::server {

namespace {

constexpr char kSuffix[] = ".sock";

}  // namespace

std::string ControlFolder() {
  if (geteuid() == 0) return "/run/farcall";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::string(runtime) + "/farcall";
  return "/tmp/farcall-" + std::to_string(geteuid());
}

Result<std::string> MakeControlFolder() {
  std::string folder = ControlFolder();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Status(Code::kUnavailable, folder + ": " + strerror(errno));
  struct stat found {};
  // In /tmp another user could have been there first.
  if (lstat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() ||
      (found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Status(Code::kUnavailable, folder + ": not a folder that only this user can write");
  return folder;
}

std::string ControlPathOf(const std::string& url) {
  std::string name = url.substr(url.rfind(':') == std::string::npos ? 0 : url.rfind(':') + 1);
  bool is_port = !name.empty() && std::all_of(name.begin(), name.end(),
                                              [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_port) {
    name.clear();
    for (unsigned char c : url)
      if (std::isalnum(c) != 0) name += static_cast<char>(c);
  }
  return ControlFolder() + "/" + name + kSuffix;
}

std::vector<std::string> ControlPaths() {
  std::vector<std::string> paths;
  std::string folder = ControlFolder();
  DIR* listing = opendir(folder.c_str());
  if (listing == nullptr) return paths;
  while (dirent* entry = readdir(listing)) {
    std::string name = entry->d_name;
    size_t suffix = sizeof(kSuffix) - 1;
    if (name.size() > suffix && name.compare(name.size() - suffix, suffix, kSuffix) == 0)
      paths.push_back(folder + "/" + name);
  }
  closedir(listing);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace farcall::server
