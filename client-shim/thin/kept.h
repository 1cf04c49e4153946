// SPDX-License-Identifier: Apache-2.0
// What a library of this version answered in earlier runs on such a device
// (client-shim/core/answer_cache.h). A question is named by all that its answer depends on: a
// print, which holds no number of this session's; "": it has none, and nothing is kept of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall::thin {

// Questions of one kind among those of a library.
enum class Kept : char {
  kAnswer = 'a',     // outputs of a call
  kContent = 'c',    // a descriptor of that content was taken
  kTried = 't',      // such a call was taken
  kPlaces = 'p',     // where a recurrent network's weights lie
  kProbe = 's',      // a backend attribute was taken
  kFinalized = 'f',  // a backend descriptor was finalised
  kAsked = 'g',      // what was asked of one
};

bool FindKept(Kept kind, std::string_view print, std::string* answer);
void Keep(Kept kind, std::string_view print, std::string_view answer);
// Whether it was kept at all.
inline bool IsKept(Kept kind, std::string_view print) {
  std::string answer;
  return FindKept(kind, print, &answer);
}

// Parts of a print are told apart by their lengths.
inline void AppendPart(std::string* print, std::string_view part) {
  const uint64_t bytes = part.size();
  print->append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  print->append(part);
}

}  // namespace farcall::thin
