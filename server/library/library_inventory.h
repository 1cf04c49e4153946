// SPDX-License-Identifier: Apache-2.0
// Which of the real libraries this host has, by their files alone: nothing is loaded. The
// supervisor tells it to each session at WELCOME.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace farcall::server {

struct LibraryTable;

// Words of proto/library/library_inventory.h for one library. None: it may be there, where only
// loading another one leads (a package beside one that is named).
std::vector<uint64_t> LookForLibrary(const LibraryTable& table);

//   Thread  any
class LibraryInventory {
 public:
  // Looks when asked first, and again as long as something is missing: it may have been installed.
  std::vector<uint64_t> ForClients();

 private:
  std::mutex mutex_;
  std::vector<uint64_t> words_;
  bool is_whole_ = false;
};

}  // namespace farcall::server
