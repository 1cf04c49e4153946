// SPDX-License-Identifier: Apache-2.0
// Spawning workers and probes.
#include "server/worker/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>

#include "proto/exec_arguments.h"
#include "proto/log_line.h"
#include "proto/printable.h"
#include "server/control/control_socket.h"
#include "server/control/memory_file.h"
#include "server/control/messages.h"
#include "server/worker/sandbox/shared_folders.h"
#include "server/worker/worker.h"
#include "sync/cond_var.h"

extern char** environ;

namespace farcall::server {

namespace {

constexpr int kProbeMilliseconds = 60000;

std::vector<std::string> WorkerEnvironment(const std::string& gpus,
                                           const std::vector<std::string>& more) {
  std::vector<std::string> environment = more;
  const bool is_mps = std::any_of(more.begin(), more.end(), [](const std::string& entry) {
    return entry.rfind("CUDA_MPS_", 0) == 0;
  });
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    // Tokens are the supervisor's business; so is which devices there are.
    if (text.rfind("FARCALL_TOKEN", 0) == 0 || text.rfind("FARCALL_VGPU", 0) == 0 ||
        text.rfind("FARCALL_TELL_STARTER", 0) == 0 ||
        (!gpus.empty() && text.rfind("CUDA_VISIBLE_DEVICES=", 0) == 0) ||
        (!more.empty() && text.rfind(std::string(kSharedFolderVariable) + "=", 0) == 0) ||
        (is_mps && text.rfind("CUDA_MPS_", 0) == 0))
      continue;
    environment.push_back(std::move(text));
  }
  if (!gpus.empty()) environment.push_back("CUDA_VISIBLE_DEVICES=" + gpus);
  return environment;
}

// A worker is killed when the thread that started it ends (EndWithParent), and greetings are heard
// by short-lived ones: this one lives as long as the process.
class Starter {
 public:
  // Runs `start` there and waits for it.   Thread  any
  void Run(const std::function<void()>& start) {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
    free_.wait(lock, [this] { return start_ == nullptr; });
    start_ = &start;
    bool done = false;
    done_ = &done;
    changed_.notify_all();
    finished_.wait(lock, [&] { return done; });
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return start_ != nullptr; });
      lock.unlock();
      (*start_)();
      lock.lock();
      *done_ = true;
      start_ = nullptr;
      finished_.notify_all();
      free_.notify_one();
    }
  }

  std::mutex mutex_;
  CondVar free_, changed_, finished_;
  const std::function<void()>* start_ = nullptr;
  bool* done_ = nullptr;
  std::thread thread_;
};

Starter& TheStarter() {
  static auto* starter = new Starter;
  return *starter;
}

// `inherited`: a descriptor to pass as well, or -1. `standard_error`: likewise; -1: ours.
Result<WorkerProcess> Spawn(const char* path, std::vector<std::string> arguments,
                            std::vector<std::string> environment, int inherited,
                            int standard_error) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return Status(Code::kUnavailable, std::string("a worker's control socket: ") + strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (standard_error >= 0)  // first: the next line may take its number
    posix_spawn_file_actions_adddup2(&actions, standard_error, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kControlDescriptor);
  // From a number that the line above cannot have taken.
  int passed = inherited < 0 ? -1 : fcntl(inherited, F_DUPFD_CLOEXEC, kControlDescriptor + 2);
  if (passed >= 0) posix_spawn_file_actions_adddup2(&actions, passed, kControlDescriptor + 1);
  // What a supervisor's terminal sends is nothing for a worker.
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;  // the supervisor blocks the signals it reads from a descriptor
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  WorkerProcess process;
  int error = 0;
  TheStarter().Run([&] {
    error = posix_spawn(&process.pid, path, &actions, &attributes, ExecArguments(arguments).data(),
                        ExecArguments(environment).data());
  });
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (passed >= 0) close(passed);
  if (error != 0) {
    close(ends[0]);
    return Status(Code::kUnavailable, std::string(path) + " cannot be started: " + strerror(error));
  }
  process.pid_fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (process.pid_fd < 0) {  // its end could not be waited for
    error = errno;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
    close(ends[0]);
    return Status(Code::kUnavailable,
                  std::string("pidfd_open (Linux 5.3 or newer is needed): ") + strerror(error));
  }
  process.control = ends[0];
  fcntl(process.control, F_SETFL, O_NONBLOCK);
  return process;
}

// What a process that loads the library wrote to its standard error. Lines of the library's log
// that are errors say why it failed; all else is passed on to our own.
class ProbeOutput {
 public:
  ProbeOutput() : file_(memfd_create("farcall-probe", MFD_CLOEXEC)) {}
  ~ProbeOutput() { close(file_); }
  ProbeOutput(const ProbeOutput&) = delete;
  ProbeOutput& operator=(const ProbeOutput&) = delete;

  int descriptor() const { return file_; }  // -1: there is none, and lines go to our own

  // Once the process has ended.
  //   `failed`  its errors are returned instead of passed on, the last of them
  std::string Read(bool failed) const {
    constexpr size_t kMaxBytes = 1 << 16;
    std::string bytes(kMaxBytes, '\0');
    const ssize_t got = file_ < 0 ? 0 : pread(file_, bytes.data(), bytes.size(), 0);
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    std::string why;
    std::istringstream lines(bytes);
    for (std::string line; std::getline(lines, line);) {
      const LogLineParts parts = ParseLogLine(line);
      if (failed && parts.severity == LogSeverity::kError)
        why = Printable(parts.text, kMaxMessageBytes);
      else
        std::fprintf(stderr, "%s\n", Printable(line, kMaxMessageBytes).c_str());
    }
    return why;
  }

 private:
  const int file_;
};

// What a process of ours answers that loads the library: a memory file of `limit` bytes at most.
Result<std::vector<std::byte>> Question(const char* what, const DeviceChoice& choice,
                                        const std::string& gpus, std::optional<uid_t> user) {
  const ProbeOutput output;
  Result<WorkerProcess> started =
      StartWorker({what, choice.path}, gpus, user, {}, output.descriptor());
  if (!started.ok()) return started.status();
  pollfd readable{started->control, POLLIN, 0};
  control::FromProbe message;
  std::vector<int> descriptors;
  Status answered(Code::kTimeout, "the probe did not answer within 60 s");
  if (poll(&readable, 1, kProbeMilliseconds) == 1)
    answered = control::Receive(started->control, &message, &descriptors);
  EndProcess(&*started);
  const std::string own_words = output.Read(!answered.ok() || descriptors.empty());
  if (!answered.ok()) {
    for (int fd : descriptors) close(fd);
    return Status(Code::kUnavailable,
                  choice.path + ": the process that loads it ended without an answer");
  }
  if (descriptors.empty()) {
    const std::string& why = std::get<control::ProbeReport>(message).why;
    return Status(Code::kUnavailable, own_words.empty() ? why : own_words);
  }
  Result<std::vector<std::byte>> bytes = ReadMemoryFile(descriptors[0], kMaxWelcomeBytes);
  for (int fd : descriptors) close(fd);
  return bytes;
}

Result<ProbedDevices> Probe(const DeviceChoice& choice, const std::string& gpus,
                            std::optional<uid_t> user) {
  Result<std::vector<std::byte>> bytes = Question("probe", choice, gpus, user);
  if (!bytes.ok()) return bytes.status();
  Result<Welcome> welcome = DecodeWelcome(*bytes);
  if (!welcome.ok()) return welcome.status();
  ProbedDevices probed{choice, {welcome->driver_version, welcome->devices}, {}};
  if (!welcome->device_kind.empty()) probed.choice.kind = welcome->device_kind;
  return probed;
}

}  // namespace

Result<WorkerProcess> StartWorker(std::vector<std::string> arguments, const std::string& gpus,
                                  std::optional<uid_t> user, const std::vector<std::string>& more,
                                  int standard_error) {
  arguments.insert(arguments.begin(), {"farcall", "worker"});
  if (user) arguments.insert(arguments.end(), {"as", std::to_string(*user)});
  return Spawn("/proc/self/exe", std::move(arguments), WorkerEnvironment(gpus, more), -1,
               standard_error);
}

Result<WorkerProcess> StartProgram(const std::string& path, std::vector<std::string> arguments,
                                   int inherited) {
  return Spawn(path.c_str(), std::move(arguments), WorkerEnvironment("", {}), inherited, -1);
}

void KillProcess(const WorkerProcess& process) {
  if (process.pid_fd < 0 ||
      syscall(SYS_pidfd_send_signal, process.pid_fd, SIGKILL, nullptr, 0) != 0)
    kill(process.pid, SIGKILL);  // not reaped yet: the number is still its own
}

int EndProcess(WorkerProcess* process) {
  KillProcess(*process);
  int status = 0;
  waitpid(process->pid, &status, 0);
  close(process->control);
  close(process->pid_fd);
  *process = {};
  return status;
}

Result<ProbedDevices> ProbeDevices(const std::vector<DeviceChoice>& choices,
                                   const std::string& gpus, std::optional<uid_t> user) {
  std::string why;
  for (const DeviceChoice& choice : choices) {
    Result<ProbedDevices> found = Probe(choice, gpus, {});
    if (found.ok() && user) {
      // The first has made the device nodes; whether others may use them shows only so.
      Result<ProbedDevices> theirs = Probe(choice, gpus, user);
      found = theirs.ok() ? found
                          : Status(theirs.status().code(), "as user " + std::to_string(*user) +
                                                               ": " + theirs.status().message());
    }
    if (found.ok()) return found;
    why += (why.empty() ? "" : "; ") + choice.kind + ": " + found.status().message();
  }
  return Status(Code::kUnavailable,
                (gpus.empty() ? "no device: " : "no device of --gpus '" + gpus + "': ") + why);
}

Result<ProbedDevices> ProbeMigDevices(const std::vector<DeviceChoice>& choices,
                                      const std::string& gpus, std::optional<uid_t> user) {
  Result<std::vector<std::byte>> bytes = Question("probe-mig", choices.front(), gpus, user);
  if (!bytes.ok()) return bytes.status();
  std::string uuids(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  ProbedDevices all;
  for (size_t at = 0; at < uuids.size();) {
    size_t end = std::min(uuids.find('\n', at), uuids.size());
    std::string uuid = uuids.substr(at, end - at);
    at = end + 1;
    // A process sees one instance, so each is asked by its own.
    Result<ProbedDevices> one = ProbeDevices({choices.front()}, uuid, user);
    if (!one.ok() || one->report.devices.size() != 1) {
      return Status(Code::kUnavailable,
                    "mode mig: " + uuid + ": " +
                        (one.ok() ? "more devices than one" : one.status().message()));
    }
    if (all.visible.empty()) {
      all.choice = one->choice;
      all.report.driver_version = one->report.driver_version;
    }
    all.report.devices.push_back(one->report.devices[0]);
    all.report.devices.back().peer_access.assign(1, 0);
    all.visible.push_back(uuid);
  }
  return all;
}

}  // namespace farcall::server
