// SPDX-License-Identifier: Apache-2.0
// What query calls were answered: the same question in the same context costs no second round trip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "generated/proto/call_id.h"

namespace farcall::client {

struct Question {
  CallId call;
  uint64_t context;  // its handle
  std::span<const std::byte> body;
};

//   Thread  any
// `renewals`: what AnswerRenewals() said before the question was sent; an answer from before a
// change is not kept.
bool FindAnswer(const Question& question, std::vector<std::byte>* answer);
void KeepAnswer(const Question& question, std::span<const std::byte> answer, uint64_t renewals);
uint64_t AnswerRenewals();
void ForgetAnswers();
// Answers to questions that begin with this object's handle hold while its state is the one they
// were given in.
void SetAnswerState(uint64_t object, uint64_t state);

}  // namespace farcall::client
