// SPDX-License-Identifier: Apache-2.0
// The files by which a container reaches its claim: what it sees as /etc/farcall.
#pragma once

#include <sys/stat.h>

#include <string>

#include "proto/status.h"

namespace farcall::k8s {

// What a container needs to reach its claim.
struct Binding {
  std::string endpoint;  // pools://host:port
  std::string claim;
  std::string token;
  std::string ca;  // PEM text; "": whom the container's image believes
};

// Makes a folder, or gives the one that is there this mode.   Errors  kUnavailable
Status MakeFolder(const std::string& path, mode_t mode);
// By a file of another name, so that nobody reads half of it.   Errors  kUnavailable
Status WriteWhole(const std::string& path, const std::string& text);

// Whoever reads meanwhile finds the old files or the new ones, each whole. Files have mode 0444,
// because a container runs as any user.
//   Errors  kUnavailable, with the system's reason; kInvalid (a value that cannot stand in a file)
Status WriteBinding(const std::string& folder, const Binding& binding);
// The claim that the folder's files name; "": none.
std::string BoundClaim(const std::string& folder);
// Deletes the files, not the folder.
void RemoveBinding(const std::string& folder);

}  // namespace farcall::k8s
