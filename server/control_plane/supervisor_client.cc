// SPDX-License-Identifier: Apache-2.0
#include "server/control_plane/supervisor_client.h"

#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <variant>

#include "server/control/control_socket.h"
#include "server/control/memory_file.h"
#include "server/control/messages.h"

namespace farcall::control_plane {

namespace {

namespace control = server::control;

constexpr int kParkPatienceMs = 60000;  // tens of GiB are on their way
constexpr size_t kMaxStatusBytes = 16u << 20;

farcall::Status OutcomeOf(const control::QuotaReply& answer) {
  const std::string& why = answer.why;
  switch (answer.outcome) {
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
template <typename Question>
Result<typename Question::Reply> SupervisorClient::Ask(Question question,
                                                       std::vector<std::byte>* bytes,
                                                       int patience_ms) {
  std::lock_guard lock(mutex_);
  question.id = ++asked_;
  if (farcall::Status sent = control::Send(control_, question); !sent.ok()) return sent;
  while (true) {
    pollfd readable{control_, POLLIN, 0};
    int ready = poll(&readable, 1, patience_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      return farcall::Status(Code::kTimeout, "the server did not answer within " +
                                                 std::to_string(patience_ms / 1000) + " s");
    control::ToControlPlane message;
    std::vector<int> descriptors;
    farcall::Status received = control::Receive(control_, &message, &descriptors);
    Result<std::vector<std::byte>> content(std::vector<std::byte>{});
    if (!descriptors.empty()) content = server::ReadMemoryFile(descriptors[0], kMaxStatusBytes);
    for (int fd : descriptors) close(fd);
    if (received.code() == Code::kDisconnected) _exit(0);  // nothing is left to be told
    if (!received.ok()) return received;
    auto* answer = std::get_if<typename Question::Reply>(&message);
    if (answer == nullptr || answer->id != question.id) continue;
    if (!content.ok()) return content.status();
    *bytes = std::move(*content);
    return std::move(*answer);
  }
}

Result<pb::ServerStatus> SupervisorClient::Status() {
  std::vector<std::byte> bytes;
  auto asked = Ask(control::AskStatus{}, &bytes);
  if (!asked.ok()) return asked.status();
  pb::ServerStatus status;
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto parsed = google::protobuf::util::JsonStringToMessage(text, &status);
  if (!parsed.ok())
    return farcall::Status(Code::kInternal, "the server's status: " + parsed.ToString());
  return status;
}

farcall::Status SupervisorClient::SetQuota(const std::string& vgpu,
                                           const server::QuotaChange& change) {
  std::vector<std::byte> bytes;
  auto answer = Ask(control::SetQuota{.vgpu = vgpu, .change = change}, &bytes);
  return answer.ok() ? OutcomeOf(*answer) : answer.status();
}

farcall::Status SupervisorClient::Park(const std::string& vgpu) {
  std::vector<std::byte> bytes;
  auto answer = Ask(control::Park{.vgpu = vgpu}, &bytes, kParkPatienceMs);
  return answer.ok() ? OutcomeOf(*answer) : answer.status();
}

}  // namespace farcall::control_plane
