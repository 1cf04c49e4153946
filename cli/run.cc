// SPDX-License-Identifier: Apache-2.0
// `farcall run`: a program with the environment set, and a server of its own where none was named.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/find_server.h"
#include "cli/programs/client_environment.h"
#include "cli/programs/framework_environment.h"
#include "cli/programs/private_server.h"
#include "cli/programs/scratch_folder.h"
#include "cli/programs/thin_libraries.h"
#include "cli/run_report.h"
#include "client-shim/core/settings/settings.h"
#include "proto/exec_arguments.h"
#include "proto/log_line.h"
#include "proto/printable.h"
#include "server/worker/sandbox/program_path.h"
#include "settings/log_line.h"
#include "transport/url.h"

namespace farcall::cli {

namespace {

// As `env` and `timeout` have them.
constexpr int kFailed = 125, kNotExecutable = 126, kNotFound = 127, kSignalled = 128;

struct RunFlags {
  ClientSettings settings;
  std::string device, report, log, on_preempt = "none";
  std::vector<std::string> pool_addresses;  // of the endpoint's, where that is a pool
  bool driver = false, no_audit = false;
  bool ptx_only = false, no_device_node = false, no_check = false;
  std::vector<std::string> command;
};

int NumberOf(const std::string& signal) {
  return signal == "TERM"   ? SIGTERM
         : signal == "INT"  ? SIGINT
         : signal == "HUP"  ? SIGHUP
         : signal == "USR1" ? SIGUSR1
         : signal == "USR2" ? SIGUSR2
                            : 0;
}

pid_t g_child = -1;
void Forward(int signal) {
  if (g_child > 0) kill(g_child, signal);
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "farcall run: %s\n", why.c_str());
  return kFailed;
}

[[noreturn]] void Exec(const std::vector<std::string>& command) {
  const std::vector<char*> arguments = ExecArguments(command);
  execvp(arguments[0], arguments.data());
  int error = errno;
  std::fprintf(stderr, "farcall run: %s: %s\n", arguments[0], std::strerror(error));
  _exit(error == ENOENT ? kNotFound : kNotExecutable);
}

int RunChild(const std::vector<std::string>& command) {
  g_child = fork();
  if (g_child < 0) return Fail("no process for the program");
  if (g_child == 0) Exec(command);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    action.sa_handler = Forward;
    sigaction(signal, &action, nullptr);
  }
  int status = 0;
  while (waitpid(g_child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

void SetAll(const Variables& variables) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

std::string ServerReport(const ScratchFolder& folder) {
  return folder.path() + "/server.json";
}

std::vector<std::string> LogLevels() {
  std::vector<std::string> names;
  names.reserve(kFarcallLogLevels);
  for (int level = 0; level < kFarcallLogLevels; ++level)
    names.emplace_back(FarcallLogLevelName(level));
  return names;
}

// At FARCALL_LOG=info and more: what the program gets from us and what stays its own.
void TellThinLibraries() {
  const char* level = std::getenv("FARCALL_LOG");
  if (level == nullptr || FarcallLogLevelOf(level) < kFarcallInfo) return;
  const ThinLibraries found = FindThinLibraries(ThinLibraryFolder());
  LogLine(LogSeverity::kInfo, "run", "thin mode: ours: " + Joined(found.ours));
  if (!found.alone.empty())
    LogLine(LogSeverity::kInfo, "run",
            "thin mode: here without the rest of its group: " + Joined(found.alone));
  if (!found.absent.empty())
    LogLine(LogSeverity::kInfo, "run", "thin mode: the program's own: " + Joined(found.absent));
}

// The program on `server`, and what it cost.
int RunReported(const RunFlags& flags, const ScratchFolder& folder, PrivateServer& server) {
  RunReport report;
  const auto start = std::chrono::steady_clock::now();
  report.exit_code = RunChild(flags.command);
  report.wall_ns = static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  server.Stop();
  ReadCounters(folder.path(), &report);
  if (Status read = ReadServerReport(ServerReport(folder), &report); !read.ok())
    std::fprintf(stderr, "farcall run: %s\n", read.message().c_str());
  std::fputs(ToText(report).c_str(), stderr);
  if (!flags.report.empty()) {
    std::ofstream file(flags.report);
    file << ToJson(report);
    file.close();
    if (!file)
      std::fprintf(stderr, "farcall run: --report %s: cannot be written\n", flags.report.c_str());
  }
  return report.exit_code;
}

// One line for people who did not say where this program is to run.
void TellWhere(const std::string& devices, const std::string& where) {
  std::fprintf(stderr, "farcall run: %s on %s\n", Printable(devices).c_str(),
               Printable(where, kMaxMessageBytes).c_str());
}

// What the program will ask a pool for, by flags or settings. A claim has been granted what it has.
// A value that cannot be read is the program's to refuse.
PoolWish WishOf(const RunFlags& flags, const client::Settings& settings) {
  PoolWish wish;
  if (!flags.settings.claim.empty() || !settings.Find("claim").value.empty()) return wish;
  const auto text = [&](const std::string& flag, const char* name) {
    return flag.empty() ? settings.Find(name).value : flag;
  };
  const QuotaFlags& quota = flags.settings.quota;
  (void)ParseByteCount(text(quota.mem, "mem"), &wish.quota.memory_bytes);
  constexpr unsigned long kMaxDevices = 64;
  wish.devices = static_cast<uint32_t>(std::min(
      std::strtoul(text(flags.settings.count, "count").c_str(), nullptr, 10), kMaxDevices));
  return wish;
}

// Before the program runs, so that it is not the program that fails. `kind`: of its devices; "":
// nobody knows yet.
Status AskFirst(const FoundServer& server, const PoolWish& wish, std::string* kind,
                std::vector<std::string>* addresses) {
  if (server.is_pool()) {
    const Status asked = AskPool(server, wish, addresses);
    return asked.ok() ? asked : Status(asked.code(), server.url + ": " + asked.message());
  }
  Result<QueryAnswer> answer = AskServer(server);
  if (!answer.ok()) {
    const std::string other =
        server.is_named() ? "" : " (it runs on this machine; --device auto starts a private one)";
    return {answer.status().code(), server.url + ": " + answer.status().message() + other};
  }
  *kind = answer->welcome.device_kind;
  if (!server.is_named())
    TellWhere(DevicesText(answer->welcome), server.url + " (" + server.source + ")");
  return {};
}

// The server that was named or runs here.   kInvalid: a combination that must not be
Status ChooseServer(RunFlags& flags, const client::Settings& settings, std::string* kind) {
  const std::string& endpoint = flags.settings.endpoint;
  if (!endpoint.empty() && !flags.device.empty())
    return {Code::kInvalid, "give --endpoint or --device, not both"};
  if (!flags.device.empty()) return {};
  Result<FoundServer> server = FindServer(endpoint, settings);
  if (!server.ok()) return server.status();
  // A report is of a server of this run's own: one that nobody named does not stand in its way.
  if (!flags.report.empty() && !server->is_named()) return {};
  flags.settings.endpoint = server->url;
  if (server->url.empty()) return {};
  if (!flags.report.empty())
    return {Code::kInvalid, "--report needs a server of this run's own: leave the endpoint out"};
  if (!flags.settings.claim.empty() && !server->is_pool())
    return {Code::kInvalid, "--claim is of a pool, and " + server->url + " is a server"};
  return flags.no_check ? Status()
                        : AskFirst(*server, WishOf(flags, settings), kind, &flags.pool_addresses);
}

struct OwnServer {
  std::optional<ScratchFolder> folder;  // before the server, which writes into it as its last act
  PrivateServer server;
  bool is_reported = false;
};

Status StartOwn(RunFlags& flags, OwnServer* own) {
  const std::string& device = flags.device;
  const bool is_dry = device == "dry" || device.rfind("dry:", 0) == 0;
  own->is_reported = is_dry || !flags.report.empty();
  const auto no_folder = [] {
    return Status(Code::kUnavailable,
                  "no folder for the report: TMPDIR, /tmp and /dev/shm cannot be written");
  };
  own->folder.emplace("farcall-run");
  if (own->folder->path().empty()) own->folder.reset();
  if (own->is_reported && !own->folder) return no_folder();
  FARCALL_TRY(own->server.Start(device, flags.settings.quota.mem,
                                own->folder ? ServerReport(*own->folder) : ""));
  // By its profile: what it left out has to be told.
  own->is_reported = own->is_reported || own->server.kind() == "cpu-skip";
  if (own->is_reported && !own->folder) return no_folder();
  if (own->is_reported) setenv("FARCALL_COUNTERS", own->folder->path().c_str(), 1);
  if (device.empty())
    TellWhere(own->server.device(),
              "a private server (--endpoint or FARCALL_ENDPOINT names "
              "another)");
  flags.settings.endpoint = own->server.url();
  flags.settings.is_private = true;
  setenv("FARCALL_TOKEN", own->server.token().c_str(), 1);
  return {};
}

// What the program finds in its environment.
void SetEnvironment(const RunFlags& flags, const std::string& kind) {
  if (!flags.log.empty()) setenv("FARCALL_LOG", flags.log.c_str(), 1);
  SetAll(ClientEnvironment(flags.settings));
  if (flags.settings.thin) TellThinLibraries();
  if (!flags.no_audit) AddAuditor();
  if (flags.ptx_only || kind.rfind("cpu", 0) == 0) SetAll(PtxOnlyEnvironment(flags.settings.thin));
  if (kind == "dry") SetAll(DryEnvironment());
  const char* libraries = std::getenv("LD_LIBRARY_PATH");
  SetAll(WheelEnvironment(flags.command[0], libraries == nullptr ? "" : libraries));
  if (!flags.no_device_node) SetAll(DeviceNodeEnvironment(flags.command[0]));
  // One vGPU for all that this starts: one account of memory, one list of processes.
  if (std::getenv("FARCALL_VGPU") == nullptr) setenv("FARCALL_VGPU", FreshToken().c_str(), 1);
}

// Beside the program, and no child of its.   `rest`: the pool's REST address
void WatchClaim(const RunFlags& flags, const std::string& claim, const std::string& rest) {
  const std::string program = server::ProgramBeside("/libexec/farcall/farcall-pool");
  const std::string process = std::to_string(getpid());
  const std::string signal = std::to_string(NumberOf(flags.on_preempt));
  std::vector<std::string> command = {program,     "watch-claim", claim,      "--pool", rest,
                                      "--process", process,       "--signal", signal};
  if (!flags.settings.ca.empty()) command.insert(command.end(), {"--ca", flags.settings.ca});
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      setsid();
      execv(program.c_str(), ExecArguments(command).data());
    }
    _exit(0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
}

void WatchClaims(const RunFlags& flags, const client::Settings& settings) {
  const std::string claims =
      !flags.settings.claim.empty() ? flags.settings.claim : settings.Find("claim").value;
  auto rest = std::find_if(flags.pool_addresses.begin(), flags.pool_addresses.end(),
                           [](const std::string& url) { return url.rfind("http", 0) == 0; });
  if (claims.empty() || rest == flags.pool_addresses.end()) return;
  for (const std::string& claim : SplitEndpoints(claims)) WatchClaim(flags, claim, *rest);
}

int Run(RunFlags& flags) {
  if (flags.driver && flags.settings.thin) return Fail("give --driver or --thin, not both");
  if (DriverLibraryFolder().empty())
    return Fail("lib/farcall/libcuda.so.1 is not beside this binary's folder");
  if (flags.settings.thin && ThinLibraryFolder().empty())
    return Fail(
        "lib/farcall/thin is not beside this binary's folder; leave --thin out for driver mode");
  const auto settings = client::Settings::Load(client::Settings::Files());
  if (!settings.error().empty()) return Fail(settings.error());
  UseTlsFiles(flags.settings);
  std::string kind;
  if (Status chosen = ChooseServer(flags, settings, &kind); !chosen.ok())
    return Fail(chosen.message());
  if (!flags.settings.endpoint.empty()) {
    WatchClaims(flags, settings);
    SetEnvironment(flags, kind);
    Exec(flags.command);
  }
  OwnServer own;
  if (Status started = StartOwn(flags, &own); !started.ok()) return Fail(started.message());
  SetEnvironment(flags, own.server.kind());
  return own.is_reported ? RunReported(flags, *own.folder, own.server) : RunChild(flags.command);
}

void AddWhere(CLI::App* command, RunFlags* flags) {
  command->option_defaults()->group("Where");
  command->add_option("--endpoint", flags->settings.endpoint,
                      std::string(kServerHelp).substr(0, std::strlen(kServerHelp) - 1) +
                          ", else a private server)");
  command->add_option(
      "--device", flags->device,
      "device of a private server: auto, cuda, cpu[:PROFILE] or dry[:PROFILE] (default: auto)");
  AddTlsFlags(command, &flags->settings);
  command->add_option("--claim", flags->settings.claim,
                      "claim of a pool to use, or several, with commas between (default: one for "
                      "this run)");
  command
      ->add_option("--on-preempt", flags->on_preempt,
                   "signal to the program when a pool is about to take the place of its --claim, "
                   "beside a line on stderr: none, TERM, INT, HUP, USR1 or USR2")
      ->check(CLI::IsMember({"none", "TERM", "INT", "HUP", "USR1", "USR2"}))
      ->capture_default_str();
  command->add_flag("--no-check", flags->no_check,
                    "start the program without asking the server first");
}

void AddHowMuch(CLI::App* command, RunFlags* flags) {
  command->option_defaults()->group("How much");
  AddQuotaFlags(command, &flags->settings.quota);
  command
      ->add_option("--count", flags->settings.count,
                   "number of devices to ask a pool for (default: 1)")
      ->check(CLI::Range(1, 64));
}

void AddWhatToReplace(CLI::App* command, RunFlags* flags) {
  command->option_defaults()->group("What to replace");
  command->add_flag("--driver", flags->driver,
                    "replace only the driver library, NVML and NCCL (the default)");
  command->add_flag("--thin", flags->settings.thin,
                    "also replace CUDA's other libraries, with those in lib/farcall/thin");
  command->add_flag("--no-audit", flags->no_audit,
                    "do not search Farcall's libraries before the program's RPATHs");
  command->add_flag("--no-device-node", flags->no_device_node,
                    "do not pretend that /dev/nvidia0 exists");
  command->add_flag("--ptx-only", flags->ptx_only,
                    "set what frameworks need if the device accepts PTX only (the default for a "
                    "CPU device)");
}

void AddReports(CLI::App* command, RunFlags* flags) {
  command->option_defaults()->group("Reports");
  command
      ->add_option(
          "--log", flags->log,
          "log level of the program (FARCALL_LOG); info lists what --thin replaces (default: warn)")
      ->check(CLI::IsMember(LogLevels()));
  command->add_option("--stats", flags->settings.stats,
                      "file for counts of calls and round trips, written at exit");
  command->add_option("--report", flags->report,
                      "file for the cost of the run: calls, waits, bytes, peak memory, as JSON; "
                      "--device dry also prints it");
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "Runs a program on a remote device");
  AddWhere(command, flags.get());
  AddHowMuch(command, flags.get());
  AddWhatToReplace(command, flags.get());
  AddReports(command, flags.get());
  command->add_option("command", flags->command, "the program and its arguments")->required();
  command->positionals_at_end();
  command->footer(
      "Examples: farcall run --endpoint tls://gpu-host:7717 -- ./train --epochs 3\n"
      "          farcall run --device dry:h100 --report cost.json -- ./train --epochs 3");
  command->callback([flags, &exit_code] { exit_code = Run(*flags); });
}

}  // namespace farcall::cli
