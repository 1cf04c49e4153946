// SPDX-License-Identifier: Apache-2.0
// A folder in shared memory for the workers of each vGPU: there a device library keeps what their
// processes share. A worker can write none of another's.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace farcall::server {

// The CPU device's variable (docs/reference/cpu-device.md): of a server the place above, of a
// worker its vGPU's folder.
inline constexpr char kSharedFolderVariable[] = "FARCALL_CPU_SHARED";

//   Thread  one at a time
class SharedFolders {
 public:
  // Makes a folder of this server's in `parent`, and removes those of servers that are gone. Where
  // none can be made (a container without /dev/shm), no vGPU has one.
  explicit SharedFolders(const std::string& parent);
  ~SharedFolders();
  SharedFolders(const SharedFolders&) = delete;
  SharedFolders& operator=(const SharedFolders&) = delete;

  // For one more worker of the vGPU; `user`: theirs.   Returns  "": there is none
  std::string Add(const std::string& vgpu, std::optional<uid_t> user);
  // What was made for a name is a vGPU's from now on, which has no worker yet.
  void Rename(const std::string& from, const std::string& vgpu);
  // One of its workers is gone.   Returns  the folder, if nobody is left that needs it, or ""
  std::string Drop(const std::string& vgpu);

 private:
  struct Folder {
    std::string path;
    uint32_t workers = 0;
  };

  std::string own_;
  int lock_ = -1;  // held while this server lives
  uint64_t made_ = 0;
  std::map<std::string, Folder> folders_;  // by vGPU
};

// /dev/shm, or what the server's environment says.
std::string SharedFolderParent();

// Removes the folders in `parent` of servers that are gone, unless they are that young: a server
// that has just begun may not hold its own yet.
void RemoveDeadServers(const std::string& parent, time_t youngest_seconds);

// Removes at most so many of the folder's files, and the folder when none is left.
//   Returns  false: there are more
bool RemoveFolder(const std::string& path, size_t most_files);

}  // namespace farcall::server
