// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/answers.h"

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

namespace farcall::client {

namespace {

constexpr size_t kMaxAnswers = 4096;

struct Answers {
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<std::byte>> by_question;
  std::unordered_map<uint64_t, uint64_t> states;  // by object; absent: 0
  uint64_t renewals = 0;
};
Answers* g_answers = new Answers;  // never destroyed: threads may outlive exit handlers

uint64_t StateLocked(const Question& question) {
  uint64_t object = 0;
  if (g_answers->states.empty() || question.body.size() < sizeof(object)) return 0;
  std::memcpy(&object, question.body.data(), sizeof(object));
  auto found = g_answers->states.find(object);
  return found == g_answers->states.end() ? 0 : found->second;
}

std::string KeyLocked(const Question& question) {
  uint64_t state = StateLocked(question);
  size_t bytes = sizeof(question.call) + sizeof(question.context) + question.body.size();
  std::string key(bytes + (state == 0 ? 0 : sizeof(state)), '\0');
  if (state != 0) std::memcpy(key.data() + bytes, &state, sizeof(state));
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
  auto found = g_answers->by_question.find(KeyLocked(question));
  if (found == g_answers->by_question.end()) return false;
  *answer = found->second;
  return true;
}

void KeepAnswer(const Question& question, std::span<const std::byte> answer, uint64_t renewals) {
  std::lock_guard lock(g_answers->mutex);
  if (renewals != g_answers->renewals) return;
  if (g_answers->by_question.size() >= kMaxAnswers) g_answers->by_question.clear();
  g_answers->by_question[KeyLocked(question)].assign(answer.begin(), answer.end());
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

void SetAnswerState(uint64_t object, uint64_t state) {
  std::lock_guard lock(g_answers->mutex);
  ++g_answers->renewals;  // what is being asked now may be answered on either side of the change
  g_answers->states[object] = state;
}

}  // namespace farcall::client
