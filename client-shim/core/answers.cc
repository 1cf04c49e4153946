// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/answers.h"

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

namespace farcall::client {

namespace {

constexpr size_t kMostAnswers = 4096;

struct Answers {
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<std::byte>> by_question;
  uint64_t renewals = 0;
};
Answers* g_answers = new Answers;  // never destroyed: threads may outlive exit handlers

std::string KeyOf(const Question& question) {
  std::string key(sizeof(question.call) + sizeof(question.context) + question.body.size(), '\0');
  std::memcpy(key.data(), &question.call, sizeof(question.call));
  std::memcpy(key.data() + sizeof(question.call), &question.context, sizeof(question.context));
  if (!question.body.empty()) {
    std::memcpy(key.data() + sizeof(question.call) + sizeof(question.context), question.body.data(),
                question.body.size());
  }
  return key;
}

}  // namespace

bool FindAnswer(const Question& question, std::vector<std::byte>* answer) {
  std::lock_guard lock(g_answers->mutex);
  auto found = g_answers->by_question.find(KeyOf(question));
  if (found == g_answers->by_question.end()) return false;
  *answer = found->second;
  return true;
}

void KeepAnswer(const Question& question, std::span<const std::byte> answer, uint64_t renewals) {
  std::lock_guard lock(g_answers->mutex);
  if (renewals != g_answers->renewals) return;
  if (g_answers->by_question.size() >= kMostAnswers) g_answers->by_question.clear();
  g_answers->by_question[KeyOf(question)].assign(answer.begin(), answer.end());
}

uint64_t AnswerRenewals() {
  std::lock_guard lock(g_answers->mutex);
  return g_answers->renewals;
}

void ForgetAnswers() {
  std::lock_guard lock(g_answers->mutex);
  ++g_answers->renewals;
  g_answers->by_question.clear();
}

}  // namespace farcall::client
