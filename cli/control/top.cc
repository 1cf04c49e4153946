// SPDX-License-Identifier: Apache-2.0
// `farcall top`: the live view. Redraws in a terminal; writes one view after the other elsewhere.
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <sstream>

#include "cli/control/client.h"
#include "cli/control/commands.h"
#include "cli/control/pool_status.h"
#include "cli/control/target_flags.h"
#include "cli/control/view.h"
#include "cli/seconds.h"

namespace farcall::cli {

namespace {

struct TopFlags {
  ControlTarget target;
  std::string token_file, ca_file;
  double seconds = 1;
  uint32_t views = 0;  // 0: until interrupted
  bool json = false;
};

grpc::ClientContext* g_watch = nullptr;  // of the one call there is; for the signal's handler

void Leave(int) {
  g_watch->TryCancel();
}

std::string View(const pb::ServerStatus& status) {
  std::string head = "farcall " + status.version() + " on " + status.host() + ", " +
                     status.device_kind() + ", up " + AgeText(status.uptime_ms()) + ", " +
                     std::to_string(status.sessions_started()) + " sessions so far" +
                     (status.draining() ? ", draining" : "") + "\n\n";
  return head + DeviceTable(status) + "\n" + VgpuTable(status) + "\n" + SessionTable(status);
}

// What fits: no line wraps, none scrolls away.
std::string Clipped(const std::string& text) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return text;
  std::istringstream lines(text);
  std::string clipped, line;
  for (int row = 0; row + 1 < size.ws_row && std::getline(lines, line); ++row)
    clipped += line.substr(0, size.ws_col) + "\n";
  return clipped;
}

std::string View(const pool::v1::PoolStatus& status) {
  return HostTable(status) + "\n" + DeviceTable(status) + "\n" + VgpuTable(status) + "\n" +
         SessionTable(status);
}

template <typename StatusMessage>
void Show(const StatusMessage& status, const TopFlags& flags) {
  if (flags.json) {
    std::puts(Json(status).c_str());
  } else if (isatty(STDOUT_FILENO) != 0) {
    std::printf("\033[H\033[2J%s", Clipped(View(status)).c_str());
  } else {
    std::printf("%s\n", View(status).c_str());
  }
  std::fflush(stdout);
}

volatile std::sig_atomic_t g_over = 0;

// Hosts tell of themselves every few seconds, so nothing is gained by a stream.
int TopOfPool(const TopFlags& flags) {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_over = 1; };  // cuts a sleep short
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  Result<std::unique_ptr<PoolClient>> client =
      PoolClient::Open(flags.target.endpoint, flags.token_file, flags.ca_file);
  for (uint32_t shown = 0; g_over == 0;) {
    Result<pool::v1::PoolStatus> status =
        client.ok() ? (*client)->Ask() : Result<pool::v1::PoolStatus>(client.status());
    if (!status.ok()) {
      std::fprintf(stderr, "farcall top: %s\n", status.status().message().c_str());
      return status.status().code() == Code::kInvalid ? 2 : 1;
    }
    Show(*status, flags);
    if (++shown == flags.views) break;
    auto seconds = static_cast<time_t>(flags.seconds);
    timespec pause{seconds,
                   static_cast<long>((flags.seconds - static_cast<double>(seconds)) * 1e9)};
    nanosleep(&pause, nullptr);
  }
  return 0;
}

int Top(const TopFlags& flags) {
  if (IsPool(flags.target.endpoint)) return TopOfPool(flags);
  Result<std::string> path = FindControl(flags.target);
  if (!path.ok()) {
    std::fprintf(stderr, "farcall top: %s\n", path.status().message().c_str());
    return path.status().code() == Code::kInvalid ? 2 : 1;
  }
  grpc::ClientContext context;
  g_watch = &context;
  std::signal(SIGINT, Leave);
  std::signal(SIGTERM, Leave);
  pb::WatchStatusRequest request;
  request.set_interval_ms(static_cast<uint32_t>(flags.seconds * 1000));
  auto stub = Dial(*path);
  auto reader = stub->WatchStatus(&context, request);
  pb::ServerStatus status;
  uint32_t shown = 0;
  while (reader->Read(&status)) {
    Show(status, flags);
    if (++shown == flags.views) context.TryCancel();
    if (shown == flags.views) break;
  }
  grpc::Status ended = reader->Finish();
  if (ended.ok() || ended.error_code() == grpc::StatusCode::CANCELLED) return 0;
  std::fprintf(stderr, "farcall top: %s\n", Explain(ended, *path).c_str());
  return 1;
}

}  // namespace

void AddTopCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TopFlags>();
  CLI::App* command = app.add_subcommand("top", "Shows devices, vGPUs and sessions, live");
  AddPoolTargetFlags(command, &flags->target, &flags->token_file, &flags->ca_file);
  command->add_option("--interval", flags->seconds, "seconds between two updates")
      ->check(CheckSeconds)
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--views", flags->views,
                      "exit after this many updates (default: run until Ctrl-C)");
  command->add_flag("--json", flags->json, "print each view as JSON");
  command->footer("Example: farcall top --interval 0.5");
  command->callback([flags, &exit_code] { exit_code = Top(*flags); });
}

}  // namespace farcall::cli
