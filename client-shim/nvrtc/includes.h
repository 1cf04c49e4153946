// SPDX-License-Identifier: Apache-2.0
// The files that a source includes, as headers in memory: NVRTC runs where they are not. Each gets
// the path by which NVRTC would have opened it for a name, and what includes it is rewritten to say
// so: then `#pragma once`, __FILE__ and messages are what they are with files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client-shim/nvrtc/scan.h"

namespace farcall::nvrtc_client {

struct Header {
  std::string name;
  std::shared_ptr<const std::string> text;
};

class Includes {
 public:
  // The names that the program gives headers in memory come before any file.
  Includes(std::vector<std::string> folders, std::set<std::string> given)
      : folders_(std::move(folders)), given_(std::move(given)) {}

  // The text with its includes rewritten; what they include joins headers(), and so on.
  // `folder`: of the text itself, with a slash, or empty.
  std::string Rewrite(const std::string& text, const std::string& folder);
  // A header that no directive spells (an option, a macro names it): its name in memory, or empty.
  std::string Add(const std::string& spelled, const std::string& folder, bool folder_first);
  // The same, to be found under the name as it was spelled.
  bool AddSpelled(const std::string& spelled, const std::string& folder);

  const std::vector<Header>& headers() const { return headers_; }
  // More files or bytes than a program may have.
  bool too_many() const { return too_many_; }

 private:
  std::string Resolve(const std::string& spelled, const std::string& folder, bool folder_first);
  std::string AddFile(const std::string& path);
  std::string Replace(const std::string& text, const std::vector<NamedFile>& names,
                      const std::string& folder);

  const std::vector<std::string> folders_;
  const std::set<std::string> given_;
  std::vector<Header> headers_;
  std::set<std::string> spelled_;
  // By device and inode: a file has one name, whatever path leads to it.
  std::map<std::pair<uint64_t, uint64_t>, std::string> names_;
  uint64_t bytes_ = 0;
  int depth_ = 0;
  bool too_many_ = false;
};

std::string FolderOf(const std::string& path);

}  // namespace farcall::nvrtc_client
