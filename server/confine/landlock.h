// SPDX-License-Identifier: Apache-2.0
// Landlock's rules for the files, ports and processes that a thread may reach.
#pragma once

#include <cstdint>
#include <string>

#include "proto/status.h"

namespace farcall::server {

//   Thread  one at a time
class LandlockRules {
 public:
  enum class Access {
    kRead,       // files and folders below, for reading
    kReadWrite,  // and for writing: what is there, and new files and folders
    kFiles,      // the same without new folders: it stays as flat as it is
    kDevice,     // a device node: reading, writing, its own controls
  };

  // What is refused beside files, as far as the kernel knows of it.
  enum class Isolation {
    kNone,
    kProcesses,  // abstract sockets and signals of others
    kAll,        // and TCP ports
  };

  explicit LandlockRules(Isolation isolation = Isolation::kNone);
  ~LandlockRules();
  LandlockRules(const LandlockRules&) = delete;
  LandlockRules& operator=(const LandlockRules&) = delete;

  // What is below `path`, or that file; what is not there is passed over.
  void Allow(const std::string& path, Access access);
  // Of a folder that is open; -1 is passed over.
  void Allow(int folder, Access access);
  // For this thread and those it starts, for good. What is open stays open.
  //   Errors  kUnavailable: the kernel has no Landlock, or refuses a rule
  Status Enforce();

  // The version of the kernel's interface; 0: it has none.
  static int Version();

 private:
  uint64_t RightsOf(Access access, bool is_folder) const;
  void Add(int parent, Access access, const std::string& name);

  int version_ = 0;
  uint64_t handled_ = 0;
  int rules_ = -1;
  Status status_;
};

}  // namespace farcall::server
