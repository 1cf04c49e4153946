// SPDX-License-Identifier: Apache-2.0
#include "client-shim/thin/kept.h"

#include "client-shim/thin/library.h"

namespace farcall::thin {

namespace {

std::string QuestionOf(Kept kind, std::string_view print) {
  std::string question(1, static_cast<char>(kind));
  question += static_cast<char>(kMajor);
  return question.append(print);
}

}  // namespace

bool FindKept(Kept kind, std::string_view print, std::string* answer) {
  if (print.empty() || Open() != 0) return false;
  const std::string question = QuestionOf(kind, print);
  return Channel().kept_answer(
      static_cast<uint8_t>(kLibrary.id), ServerVersion(), question.data(), question.size(),
      [](void* user, const void* bytes, size_t count) {
        static_cast<std::string*>(user)->assign(static_cast<const char*>(bytes), count);
      },
      answer);
}

void Keep(Kept kind, std::string_view print, std::string_view answer) {
  if (print.empty()) return;
  const std::string question = QuestionOf(kind, print);
  Channel().keep_answer(static_cast<uint8_t>(kLibrary.id), ServerVersion(), question.data(),
                        question.size(), answer.data(), answer.size());
}

}  // namespace farcall::thin
