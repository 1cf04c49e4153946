// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/options/control_path.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "transport/run_folder.h"

namespace farcall::server {

namespace {

constexpr char kSuffix[] = ".sock";

// A socket in a folder, without its process.
bool IsRefused(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno == ECONNREFUSED;
  close(fd);
  return refused;
}

// What the kernel lists has a process. To connect would start the server's control service.
bool IsListed(const std::string& path) {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    if (line.size() > path.size() &&
        line.compare(line.size() - path.size() - 1, path.npos, " " + path) == 0)
      return true;
  return false;
}

// Of a server that was killed. One that starts has bound its socket a moment before it listens.
bool IsLeftBehind(const std::string& path) {
  constexpr useconds_t kMoment = 50'000;
  if (IsListed(path) || !IsRefused(path)) return false;
  usleep(kMoment);
  return !IsListed(path) && IsRefused(path);
}

}  // namespace

std::string ControlFolder() {
  return RunFolder();
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

namespace {

std::string PathOf(const std::string& url, const char* suffix) {
  std::string name = url.substr(url.rfind(':') == std::string::npos ? 0 : url.rfind(':') + 1);
  bool is_port = !name.empty() && std::all_of(name.begin(), name.end(),
                                              [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_port) {
    name.clear();
    for (unsigned char c : url)
      if (std::isalnum(c) != 0) name += static_cast<char>(c);
  }
  return ControlFolder() + "/" + name + suffix;
}

}  // namespace

std::string ControlPathOf(const std::string& url) {
  return PathOf(url, kSuffix);
}

std::string ShmPathOf(const std::string& url) {
  return PathOf(url, ".shm");
}

std::vector<std::string> ControlPaths() {
  std::vector<std::string> paths;
  std::string folder = ControlFolder();
  DIR* listing = opendir(folder.c_str());
  if (listing == nullptr) return paths;
  while (dirent* entry = readdir(listing)) {
    std::string name = entry->d_name;
    size_t suffix = sizeof(kSuffix) - 1;
    if (name.size() <= suffix || name.compare(name.size() - suffix, suffix, kSuffix) != 0) continue;
    const std::string path = folder + "/" + name;
    if (IsLeftBehind(path))
      unlink(path.c_str());
    else
      paths.push_back(path);
  }
  closedir(listing);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> ServersHere() {
  std::vector<std::string> ports;
  for (const std::string& path : ControlPaths()) {
    std::string name = path.substr(path.rfind('/') + 1);
    name.resize(name.size() - (sizeof(kSuffix) - 1));
    if (name.find_first_not_of("0123456789") == std::string::npos) ports.push_back(name);
  }
  return ports;
}

}  // namespace farcall::server
