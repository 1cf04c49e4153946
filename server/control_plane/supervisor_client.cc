// SPDX-License-Identifier: Apache-2.0
#include "server/control_plane/supervisor_client.h"

#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>

namespace farcall::control_plane {

namespace {

using server::ControlMessage;
using server::ControlType;

constexpr int kParkPatienceMs = 60000;  // tens of GiB are on their way
constexpr size_t kMaxStatusBytes = 16u << 20;

farcall::Status OutcomeOf(const ControlMessage& answer) {
  std::string why(answer.Text());
  switch (static_cast<server::ChangeOutcome>(answer.a)) {
    case server::ChangeOutcome::kDone:
      return {};
    case server::ChangeOutcome::kNoSuchVgpu:
      return {Code::kUnavailable, why};
    case server::ChangeOutcome::kInvalid:
      return {Code::kInvalid, why};
    case server::ChangeOutcome::kRefused:
      return {Code::kRefused, why};
  }
  return {Code::kInternal, "an answer of another release"};
}

}  // namespace

// The supervisor answers in the order in which it can, so an answer to a question given up may
// come before this one's.
farcall::Status SupervisorClient::Ask(ControlMessage question, ControlMessage* answer,
                                      std::vector<std::byte>* bytes, int patience_ms) {
  std::lock_guard lock(mutex_);
  question.id = ++asked_;
  FARCALL_TRY(server::SendControl(control_, question));
  while (true) {
    pollfd readable{control_, POLLIN, 0};
    int ready = poll(&readable, 1, patience_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      return {Code::kTimeout,
              "the server did not answer within " + std::to_string(patience_ms / 1000) + " s"};
    std::vector<int> descriptors;
    farcall::Status received = server::ReceiveControl(control_, answer, &descriptors);
    Result<std::vector<std::byte>> content(std::vector<std::byte>{});
    if (!descriptors.empty()) content = server::ReadMemoryFile(descriptors[0], kMaxStatusBytes);
    for (int fd : descriptors) close(fd);
    if (received.code() == Code::kDisconnected) _exit(0);  // nothing is left to be told
    if (!received.ok()) return received;
    if (answer->id != question.id) continue;
    if (!content.ok()) return content.status();
    *bytes = std::move(*content);
    return {};
  }
}

Result<pb::ServerStatus> SupervisorClient::Status() {
  ControlMessage question, answer;
  question.type = ControlType::kAskStatus;
  std::vector<std::byte> bytes;
  farcall::Status asked = Ask(question, &answer, &bytes);
  if (!asked.ok()) return asked;
  pb::ServerStatus status;
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto parsed = google::protobuf::util::JsonStringToMessage(text, &status);
  if (!parsed.ok())
    return farcall::Status(Code::kInternal, "the server's status: " + parsed.ToString());
  return status;
}

farcall::Status SupervisorClient::SetQuota(const std::string& vgpu,
                                           const server::QuotaChange& change) {
  ControlMessage question, answer;
  question.type = ControlType::kSetQuota;
  question.SetText(vgpu);
  change.PutInto(&question);
  std::vector<std::byte> bytes;
  FARCALL_TRY(Ask(question, &answer, &bytes));
  return OutcomeOf(answer);
}

farcall::Status SupervisorClient::Park(const std::string& vgpu) {
  ControlMessage question, answer;
  question.type = ControlType::kPark;
  question.SetText(vgpu);
  std::vector<std::byte> bytes;
  FARCALL_TRY(Ask(question, &answer, &bytes, kParkPatienceMs));
  return OutcomeOf(answer);
}

}  // namespace farcall::control_plane
