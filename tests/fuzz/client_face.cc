// SPDX-License-Identifier: Apache-2.0
// Stands in for client-shim/core/connection/lifecycle.cc: questions are answered from an input,
// posts go nowhere.
#include <algorithm>
#include <cstring>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "tests/fuzz/client_answers.h"

namespace farcall::fuzz {

namespace {

CUresult g_status = CUDA_SUCCESS;
std::span<const std::byte> g_answer;

}  // namespace

void SetReply(CUresult status, std::span<const std::byte> body) {
  g_status = status;
  g_answer = body;
}

CUresult FillReply(client::Reply* reply) {
  if (reply != nullptr) {
    // As Session::HandleReply leaves it: exactly as long as it came.
    reply->status = g_status;
    std::copy(g_answer.begin(), g_answer.end(), reply->Allot(g_answer.size()).begin());
  }
  return g_status;
}

}  // namespace farcall::fuzz

namespace farcall::client {

CUresult ConnectSession() {
  return CUDA_SUCCESS;
}
CUresult Initialise() {
  return CUDA_SUCCESS;
}
bool IsInitialised() {
  return true;
}
std::atomic<bool> g_all_clear{false};
void UpdateAllClear() {}
CUresult EnterWithCare(CallId, Needs) {
  return CUDA_SUCCESS;
}

Record MakeRecord(CallId call, std::span<const std::byte> head, std::span<const std::byte> tail) {
  Record record;
  record.call = static_cast<uint16_t>(call);
  record.context = CurrentContext() == nullptr ? 0 : CurrentContext()->slot;
  record.head = head;
  record.tail = tail;
  return record;
}

CUresult PostRecord(const Record&, const PostOptions& options) {
  if (options.serial != nullptr) *options.serial = 1;
  return CUDA_SUCCESS;
}
CUresult Post(CallId call, std::span<const std::byte> head, std::span<const std::byte> tail,
              const PostOptions& options) {
  return PostRecord(MakeRecord(call, head, tail), options);
}
CUresult RoundTripParts(CallId, std::span<const std::byte>, std::span<const std::byte>,
                        Reply* reply) {
  return fuzz::FillReply(reply);
}
CUresult RoundTrip(CallId, std::span<const std::byte>, Reply* reply) {
  return fuzz::FillReply(reply);
}
// Nothing is remembered: each question is asked again.
CUresult Query(CallId, std::span<const std::byte>, Reply* reply) {
  return fuzz::FillReply(reply);
}
CUresult AskSession(SessionCall, uint16_t, std::span<const std::byte>, Reply* reply) {
  return fuzz::FillReply(reply);
}
CUresult TellSession(SessionCall, uint16_t, std::span<const std::byte>) {
  return CUDA_SUCCESS;
}
CUresult NotSupported(CallId) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace farcall::client
