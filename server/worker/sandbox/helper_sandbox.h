// SPDX-License-Identifier: Apache-2.0
// The sandbox of our programs beside the supervisor (farcall-control, a pool's agent): they speak
// to the network, or to people, for it, and need little else.
#pragma once

#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

struct HelperRules {
  std::vector<std::string> readable;  // files of its own: a CA's
  std::string writable;               // a folder of its own, which is there; empty: none
  bool uses_network = false;          // else it only accepts on the socket that it was started with
};

// From here on this thread and those it starts read libraries, how names are resolved, certificates
// and the above; make no process, signal none, and use no other socket. Nobody of the same user
// looks into their memory. Where the kernel has no Landlock, files are not held back.
//   Errors  kUnavailable: the kernel has no seccomp
//   Thread  the only one
Status ConfineHelper(const HelperRules& rules);

// False: one of the files, or how names are resolved, was put in the place of what the rules knew.
// A process that begins anew can read it.
bool CanReadStill(const std::vector<std::string>& files);

}  // namespace farcall::server
