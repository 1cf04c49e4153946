// SPDX-License-Identifier: Apache-2.0
#include "server/pool_agent/agent.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <variant>

#include "generated/proto/pool.grpc.pb.h"
#include "pool/client/rest_client.h"
#include "pool/tls/tls.h"
#include "proto/log_line.h"
#include "server/control/control_socket.h"
#include "server/control/memory_file.h"
#include "server/control/messages.h"
#include "server/pool_agent/membership.h"
#include "server/worker/sandbox/helper_sandbox.h"
#include "sync/cond_var.h"

namespace farcall::pool {

namespace {

namespace pb = farcall::pool::v1;
namespace control = server::control;

constexpr std::chrono::milliseconds kBeat(3000);
constexpr size_t kMaxReportBytes = 16u << 20;

// The supervisor's side: one question at a time; its nudges wake whoever waits for the next beat.
class Supervisor {
 public:
  explicit Supervisor(int control) : control_(control) {}

  bool Report(uint64_t beat, pb::HostReport* report) {
    std::string text;
    {
      std::unique_lock lock(mutex_);
      report_.clear();
      wanted_ = beat;
      if (!control::Send(control_, control::PoolBeat{.beat = beat}).ok()) _exit(0);
      if (!heard_.wait_for(lock, std::chrono::seconds(5), [&] { return !report_.empty(); }))
        return false;
      text = report_;
    }
    report->Clear();
    if (!google::protobuf::util::JsonStringToMessage(text, report).ok()) return false;
    report->set_beat(beat);
    return true;
  }

  void Answer(const pb::HostAnswer& answer) {
    std::string text;
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    (void)google::protobuf::util::MessageToJsonString(answer, &text, options);
    auto bytes = std::as_bytes(std::span(text));
    int file = server::MakeMemoryFile("farcall-answer", {bytes.begin(), bytes.end()});
    if (file < 0) return;
    if (!control::Send(control_, control::PoolAnswer{.beat = answer.beat()}, {file}).ok()) _exit(0);
    close(file);
  }

  // Until the supervisor is gone.   Thread  of its own
  void Listen() {
    while (true) {
      control::ToPoolAgent message;
      std::vector<int> descriptors;
      Status received = control::Receive(control_, &message, &descriptors);
      if (received.code() == Code::kTimeout) {
        pollfd readable{control_, POLLIN, 0};
        poll(&readable, 1, -1);
        continue;
      }
      if (!received.ok()) _exit(0);
      std::visit(control::Overloaded{[&](const control::PoolReport& report) {
                                       if (!descriptors.empty()) OnMessage(report, descriptors[0]);
                                     },
                                     [&](const control::PoolChanged&) { Nudge(); }},
                 message);
      for (int fd : descriptors) close(fd);
    }
  }

  void Nudge() {
    std::lock_guard lock(mutex_);
    nudged_ = true;
    heard_.notify_all();
  }
  // Till the next beat is due, or somebody wants one now, or `over`.
  void WaitForBeat(const std::atomic<bool>& over) {
    std::unique_lock lock(mutex_);
    heard_.wait_for(lock, kBeat, [&] { return nudged_ || over.load(); });
    nudged_ = false;
  }
  // Of a stream that takes nothing any more.
  void WaitForEnd(const std::atomic<bool>& over) {
    constexpr std::chrono::seconds kPatience(5);
    std::unique_lock lock(mutex_);
    heard_.wait_for(lock, kPatience, [&] { return over.load(); });
  }

 private:
  void OnMessage(const control::PoolReport& message, int file) {
    auto bytes = server::ReadMemoryFile(file, kMaxReportBytes);
    std::lock_guard lock(mutex_);
    if (bytes.ok() && message.beat == wanted_)
      report_.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    heard_.notify_all();
  }

  const int control_;
  std::mutex mutex_;
  CondVar heard_;
  std::string report_;
  uint64_t wanted_ = 0;
  bool nudged_ = false;
};

// One stream, as long as it lasts. Its end in words.
std::string Stream(Supervisor& supervisor, const std::string& address, const PoolAddress& pool,
                   Membership* membership, uint64_t* beat) {
  Result<std::shared_ptr<grpc::ChannelCredentials>> credentials =
      ClientCredentials(pool.is_tls(), pool.tls);
  if (!credentials.ok()) return credentials.status().message();
  pb::HostReport report;
  if (!supervisor.Report(++*beat, &report)) return "the server does not answer";
  Status joined = membership->Join(report.host());
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  auto stub = pb::AgentLink::NewStub(grpc::CreateCustomChannel(address, *credentials, arguments));
  grpc::ClientContext context;
  if (!membership->credential().empty())
    context.AddMetadata("authorization", "Bearer " + membership->credential());
  auto stream = stub->Stream(&context);
  std::atomic<bool> over{false};
  std::thread reader([&] {
    pb::HostAnswer answer;
    while (stream->Read(&answer)) supervisor.Answer(answer);
    over = true;
    supervisor.Nudge();
  });
  for (bool is_whole = true; !over; is_whole = supervisor.Report(++*beat, &report)) {
    if (is_whole && !stream->Write(report)) break;
    supervisor.WaitForBeat(over);
  }
  // A stream that takes no more has ended, and says why unless it is cancelled.
  supervisor.WaitForEnd(over);
  if (!over) context.TryCancel();
  reader.join();
  grpc::Status status = stream->Finish();
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    membership->Reject();
    if (!joined.ok()) return joined.message();
  }
  return status.error_message();
}

}  // namespace

int RunAgent(const PoolAddress& pool) {
  fcntl(server::kControlDescriptor, F_SETFD, FD_CLOEXEC);
  server::HelperRules rules;
  rules.uses_network = true;
  rules.writable = Membership::MakeFolder();
  for (const std::string* file : {&pool.tls.authorities, &pool.tls.certificate, &pool.tls.key})
    if (!file->empty()) rules.readable.push_back(*file);
  if (Status confined = server::ConfineHelper(rules); !confined.ok()) {
    LogLine(LogSeverity::kError, "agent", confined.message());
    return 1;
  }
  Result<std::vector<std::byte>> join =
      server::ReadMemoryFile(server::kControlDescriptor + 1, 4096);
  if (!join.ok()) {
    std::fprintf(stderr, "farcall-pool agent: is started by farcall serve --pool\n");
    return 2;
  }
  Membership membership(
      {pool.url, {reinterpret_cast<const char*>(join->data()), join->size()}, pool.tls});
  close(server::kControlDescriptor + 1);
  Supervisor supervisor(server::kControlDescriptor);
  std::thread([&] { supervisor.Listen(); }).detach();
  std::mt19937 random(std::random_device{}());
  // The supervisor's next agent must not count again from 1 for the same incarnation.
  auto beat = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
  std::string said;
  while (true) {
    pb::Info info;
    Status asked = RestGet(pool, "/v1/pool", &info);
    std::string why = asked.ok() ? Stream(supervisor, HostOf(pool.url) + PortOf(info.grpc()), pool,
                                          &membership, &beat)
                                 : asked.message();
    if (!why.empty() && why != said)
      LogLine(LogSeverity::kWarn, "agent",
              "pool " + pool.url + ": " + why + "; trying again, sessions go on");
    said = why;
    // It is started again, and reads what is there by then. Its credential has to be kept for that.
    if (!rules.writable.empty() && !server::CanReadStill(rules.readable)) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(200 + random() % 800));
  }
}

}  // namespace farcall::pool
