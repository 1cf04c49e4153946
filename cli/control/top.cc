// SPDX-License-Identifier: Apache-2.0
// `farcall top`: the live view. Redraws in a terminal and hears keys there; writes one view after
// the other elsewhere.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "cli/control/client.h"
#include "cli/control/commands.h"
#include "cli/control/pool_status.h"
#include "cli/control/target_flags.h"
#include "cli/control/top_screen.h"
#include "cli/flags/seconds.h"
#include "proto/printable.h"
#include "sync/cond_var.h"
#include "transport/url.h"

namespace farcall::cli {

namespace {

struct TopFlags {
  ControlTarget target;
  std::string token_file, ca_file;
  double seconds = 1;
  uint32_t views = 0;  // 0: until interrupted
  bool json = false;
};

volatile std::sig_atomic_t g_over = 0;

void Leave(int) {
  g_over = 1;
}

std::string Head(const pb::ServerStatus& status) {
  int sessions = 0;
  for (const pb::Vgpu& vgpu : status.vgpus()) sessions += vgpu.sessions_size();
  return "farcall " + Printable(status.version()) + " on " + Printable(status.host()) + " (" +
         Printable(status.device_kind()) + "), up " + AgeText(status.uptime_ms()) + ", " +
         std::to_string(sessions) + " sessions, " + std::to_string(status.sessions_started()) +
         " so far" + (status.draining() ? ", draining" : "");
}

std::string Head(const pool::v1::PoolStatus& status) {
  int sessions = 0;
  for (const auto& host : status.hosts())
    for (const pb::Vgpu& vgpu : host.status().vgpus()) sessions += vgpu.sessions_size();
  return "farcall pool, " + std::to_string(status.hosts_size()) + " hosts, " +
         std::to_string(sessions) + " sessions";
}

std::string PlainView(const pb::ServerStatus& status, const ViewOptions& options) {
  const std::vector<Shown> hosts = ShownOf(status);
  return Head(status) + "\n\n" + DeviceTable(hosts, options) + "\n" + VgpuTable(hosts, options) +
         "\n" + SessionTable(hosts, options);
}

std::string PlainView(const pool::v1::PoolStatus& status, const ViewOptions& options) {
  const std::vector<Shown> hosts = ShownOf(status);
  return HostTable(status, options) + "\n" + DeviceTable(hosts, options) + "\n" +
         VgpuTable(hosts, options) + "\n" + SessionTable(hosts, options);
}

// The terminal without echo and lines, and a screen of its own, as long as this lives.
class RawTerminal {
 public:
  RawTerminal() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::fputs("\033[?1049h\033[?25l", stdout);
  }
  ~RawTerminal() {
    std::fputs("\033[?25h\033[?1049l", stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
};

// Keys as they come: one sequence each.
std::vector<std::string> ReadKeys() {
  char bytes[64];
  const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
  std::vector<std::string> keys;
  for (ssize_t i = 0; i < got; ++i) {
    const bool is_sequence =
        bytes[i] == '\033' && i + 2 < got && (bytes[i + 1] == '[' || bytes[i + 1] == 'O');
    keys.emplace_back(bytes + i, is_sequence ? 3 : 1);
    if (is_sequence) i += 2;
  }
  return keys;
}

// Where states come from, in a thread of its own. A state is whole or it is not there.
template <typename StatusMessage>
class Feed {
 public:
  // `next` waits for a state; false: there are no more, and why.
  using Next = std::function<bool(StatusMessage*, std::string* why)>;
  explicit Feed(Next next) : thread_([this, next = std::move(next)] { Run(next); }) {}
  // `next` has to return soon.
  ~Feed() { thread_.join(); }
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // The newest state that was not taken yet.
  bool Take(StatusMessage* status) {
    std::lock_guard lock(mutex_);
    if (!is_new_) return false;
    *status = newest_;
    is_new_ = false;
    return true;
  }
  bool has_ended() {
    std::lock_guard lock(mutex_);
    return has_ended_;
  }
  std::string why() {
    std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  void Run(const Next& next) {
    StatusMessage status;
    std::string why;
    while (g_over == 0 && next(&status, &why)) {
      std::lock_guard lock(mutex_);
      newest_ = status;
      is_new_ = true;
    }
    std::lock_guard lock(mutex_);
    has_ended_ = true;
    why_ = why;
  }

  std::mutex mutex_;
  StatusMessage newest_;
  bool is_new_ = false, has_ended_ = false;
  std::string why_;
  std::thread thread_;  // last: it uses the others
};

using Park = std::function<std::string(const std::string& vgpu)>;

struct Size {
  size_t height = 24, width = 80;
};

Size TerminalSize() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return {};
  return {size.ws_row, size.ws_col};
}

// Until q, a signal, the last view, or the end of the feed.   Why it ended; "": as wished
template <typename StatusMessage>
std::string Watch(Feed<StatusMessage>& feed, const TopFlags& flags, const Park& park) {
  constexpr int kTurnMs = 50;
  RawTerminal terminal;
  TopScreen screen(OptionsOfStdout());
  StatusMessage status;
  bool has_status = false;
  for (uint32_t shown = 0; g_over == 0;) {
    bool is_due = false;
    if (feed.Take(&status)) {
      has_status = is_due = true;
      screen.Update({"", ShownOf(status)});
      ++shown;
    } else if (feed.has_ended()) {
      return feed.why();
    }
    pollfd keys{STDIN_FILENO, POLLIN, 0};
    if (poll(&keys, 1, is_due ? 0 : kTurnMs) > 0) {
      for (const std::string& key : ReadKeys()) {
        const TopScreen::Wish wish = screen.Press(key);
        if (wish == TopScreen::Wish::kQuit) return "";
        if (wish == TopScreen::Wish::kPark && screen.Selected())
          screen.Say(park(*screen.Selected()));
        is_due = is_due || wish != TopScreen::Wish::kNothing;
      }
      if ((keys.revents & (POLLHUP | POLLERR)) != 0) return "";
    }
    if (!is_due || !has_status) continue;
    const Size size = TerminalSize();
    std::printf("\033[H%s\033[J",
                screen.Draw({Head(status), ShownOf(status)}, size.height - 1, size.width).c_str());
    std::fflush(stdout);
    if (shown == flags.views) return "";
  }
  return "";
}

// One view after the other, for a file or a pipe.
template <typename StatusMessage>
std::string Write(Feed<StatusMessage>& feed, const TopFlags& flags) {
  History history;
  ViewOptions options;
  options.history = &history;
  StatusMessage status;
  for (uint32_t shown = 0; g_over == 0;) {
    const bool is_last = feed.has_ended();
    if (!feed.Take(&status)) {
      if (is_last) return feed.why();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    history.Add(ShownOf(status));
    std::puts((flags.json ? Json(status) : PlainView(status, options)).c_str());
    std::fflush(stdout);
    if (++shown == flags.views) return "";
  }
  return "";
}

template <typename StatusMessage>
std::string Show(Feed<StatusMessage>& feed, const TopFlags& flags, const Park& park) {
  const bool has_keys = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  std::string why = has_keys && !flags.json ? Watch(feed, flags, park) : Write(feed, flags);
  g_over = 1;  // the feed's thread stops
  return why;
}

int Fail(const Status& why) {
  std::fprintf(stderr, "farcall top: %s\n", why.message().c_str());
  return why.code() == Code::kInvalid ? 2 : 1;
}

// Hosts tell of themselves every few seconds, so nothing is gained by a stream.
int TopOfPool(const TopFlags& flags) {
  Result<std::unique_ptr<PoolClient>> client =
      PoolClient::Open(flags.target.endpoint, flags.token_file, flags.ca_file);
  if (!client.ok()) return Fail(client.status());
  bool is_first = true;
  Feed<pool::v1::PoolStatus> feed([&](pool::v1::PoolStatus* status, std::string* why) {
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::duration<double>(is_first ? 0 : flags.seconds);
    while (g_over == 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    is_first = false;
    Result<pool::v1::PoolStatus> asked = (*client)->Ask();
    if (asked.ok()) *status = *asked;
    *why = asked.status().message();
    return asked.ok();
  });
  const std::string why = Show(feed, flags, [](const std::string& vgpu) {
    return "park on its own host: farcall park " + Printable(vgpu);
  });
  return why.empty() ? 0 : Fail({Code::kUnavailable, why});
}

int TopOfServer(const TopFlags& flags) {
  Result<std::string> path = FindControl(flags.target);
  if (!path.ok()) return Fail(path.status());
  auto stub = Dial(*path);
  grpc::ClientContext context;
  pb::WatchStatusRequest request;
  request.set_interval_ms(static_cast<uint32_t>(flags.seconds * 1000));
  auto reader = stub->WatchStatus(&context, request);
  std::string why;
  {
    Feed<pb::ServerStatus> feed([&](pb::ServerStatus* status, std::string* told) {
      if (reader->Read(status)) return true;
      const grpc::Status ended = reader->Finish();
      const bool is_wished = ended.ok() || ended.error_code() == grpc::StatusCode::CANCELLED;
      *told = is_wished ? "" : Explain(ended, *path);
      return false;
    });
    why = Show(feed, flags, [&](const std::string& vgpu) {
      grpc::ClientContext call;
      pb::ParkRequest park;
      park.set_vgpu(vgpu);
      pb::Vgpu parked;
      const grpc::Status done = stub->Park(&call, park, &parked);
      return done.ok() ? Printable(vgpu) + " is parked" : Explain(done, *path);
    });
    context.TryCancel();  // Read returns
  }
  return why.empty() ? 0 : Fail({Code::kUnavailable, why});
}

int Top(const TopFlags& flags) {
  struct sigaction action = {};
  action.sa_handler = Leave;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  TopFlags resolved = flags;
  if (Status known = Resolve(&resolved.target); !known.ok()) return Fail(known);
  return IsPoolUrl(resolved.target.endpoint) ? TopOfPool(resolved) : TopOfServer(resolved);
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
                      "exit after this many updates (default: run until q or Ctrl-C)");
  command->add_flag("--json", flags->json, "print each view as JSON");
  command->footer(
      "Keys: q quits, j and k or the arrows select a vGPU, Enter shows its sessions, s sorts, p "
      "parks.\nExample: farcall top --interval 0.5");
  command->callback([flags, &exit_code] { exit_code = Top(*flags); });
}

}  // namespace farcall::cli
