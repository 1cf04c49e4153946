// SPDX-License-Identifier: Apache-2.0
// Who had what, and since when: a JSON object a line, appended to a file. Fields:
// docs/reference/control.md.
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "proto/status.h"

namespace farcall::server {

//   Thread  any
class Audit {
 public:
  ~Audit();
  //   Errors  kInvalid (the file cannot be opened for appending)
  Status Open(const std::string& path);
  // Adds time and event to `fields` and writes them, in one write. Nothing without an open file.
  // If the file was renamed or removed since, as logrotate does, a new one is begun at its path.
  void Note(const char* event, nlohmann::json fields);

 private:
  void ReopenIfMovedLocked();

  std::mutex mutex_;
  std::string path_;
  int file_ = -1;
};

}  // namespace farcall::server
