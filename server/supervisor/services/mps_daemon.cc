// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/services/mps_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "proto/exec_arguments.h"
#include "server/worker/worker_process.h"
#include "transport/channel.h"

extern char** environ;

namespace farcall::server {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kProgram[] = "nvidia-cuda-mps-control";
constexpr seconds kCommandPatience(10), kStartPatience(15), kQuitPatience(5);
constexpr milliseconds kLook(50);
constexpr size_t kMaxAnswerBytes = 64u << 10;

// `in`, `out`: what it has as standard input, and as output and errors. It ends with the thread
// that started it: a server that is killed leaves no daemon behind.   -1: it cannot be started
pid_t Spawn(const std::string& path, const std::vector<std::string>& arguments,
            const std::vector<std::string>& environment, int in, int out) {
  const std::vector<char*> words = ExecArguments(arguments), variables = ExecArguments(environment);
  sigset_t none;  // the supervisor blocks the signals it reads from a descriptor
  sigemptyset(&none);
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid != 0) return pid;
  // Only what may be called between fork and exec in a process of many threads.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  bool is_set = dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
                dup2(out, STDERR_FILENO) >= 0 && getppid() == parent;
  if (is_set) execve(path.c_str(), words.data(), variables.data());
  _exit(127);
}

// What is printed until the end of output, or `until`.
Status ReadAll(int fd, Clock::time_point until, std::string* text) {
  std::array<char, 4096> buffer;
  while (true) {
    auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
    pollfd readable{fd, POLLIN, 0};
    if (left <= 0 || poll(&readable, 1, static_cast<int>(left)) == 0)
      return {Code::kTimeout, "no answer"};
    ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got <= 0) return {};
    text->append(buffer.data(), static_cast<size_t>(got));
    if (text->size() > kMaxAnswerBytes) return {Code::kUnavailable, "an answer without end"};
  }
}

// One number a line; other lines are none.
std::vector<pid_t> Numbers(const std::string& text) {
  std::vector<pid_t> numbers;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    pid_t number = 0;
    auto [last, error] = std::from_chars(text.data() + at, text.data() + end, number);
    if (error == std::errc() && last == text.data() + end) numbers.push_back(number);
    at = end + 1;
  }
  return numbers;
}

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

Result<std::string> FindMpsControl() {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  for (size_t at = 0; at < folders.size();) {
    size_t end = std::min(folders.find(':', at), folders.size());
    std::string program = folders.substr(at, end - at) + "/" + kProgram;
    if (access(program.c_str(), X_OK) == 0) return program;
    at = end + 1;
  }
  return Status(Code::kUnavailable, std::string("mode mps: there is no ") + kProgram +
                                        " on PATH; it comes with NVIDIA's driver");
}

std::string MpsDaemon::MemoryText(uint64_t bytes) {
  constexpr uint64_t kMiB = 1u << 20;
  return std::to_string(bytes / kMiB + (bytes % kMiB != 0 ? 1 : 0)) + "M";
}

std::vector<std::string> MpsDaemon::ClientEnvironment() const {
  return {"CUDA_MPS_PIPE_DIRECTORY=" + options_.folder + "/pipe",
          "CUDA_MPS_LOG_DIRECTORY=" + options_.folder + "/log"};
}

std::vector<std::string> MpsDaemon::Environment() const {
  std::vector<std::string> all = ClientEnvironment();
  all.push_back("CUDA_VISIBLE_DEVICES=" + options_.devices);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    if (text.rfind("CUDA_MPS_", 0) != 0 && text.rfind("CUDA_VISIBLE_DEVICES=", 0) != 0 &&
        text.rfind("FARCALL_TOKEN", 0) != 0)
      all.push_back(std::move(text));
  }
  return all;
}

Result<std::string> MpsDaemon::Command(const std::string& line) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0)
    return Status(Code::kUnavailable, std::string("MPS: ") + strerror(errno));
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    return Status(Code::kUnavailable, std::string("MPS: ") + strerror(errno));
  }
  pid_t pid = Spawn(options_.program, {kProgram}, Environment(), in[0], out[1]);
  close(in[0]);
  close(out[1]);
  std::string text = line + "\n", answer;
  if (pid > 0) (void)!write(in[1], text.data(), text.size());  // it fits a pipe
  close(in[1]);
  Status read = pid > 0 ? ReadAll(out[0], Clock::now() + kCommandPatience, &answer)
                        : Status(Code::kUnavailable, "cannot be started");
  close(out[0]);
  int status = 0;
  if (pid > 0) {
    if (!read.ok()) kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  if (!read.ok())
    return Status(read.code(), options_.program + ": " + line + ": " + read.message());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Status(Code::kUnavailable,
                  options_.program + ": " + line + ": " +
                      (answer.empty() ? "it failed without a word" : FirstLine(answer)));
  }
  return answer;
}

// A command whose answer says nothing we need.
Status MpsDaemon::Expect(const std::string& line) {
  return Command(line).status();
}

bool MpsDaemon::is_running() {
  if (daemon_ > 0 && waitpid(daemon_, nullptr, WNOHANG) != 0) daemon_ = -1;
  return daemon_ > 0;
}

std::vector<pid_t> MpsDaemon::Servers() {
  Result<std::string> listed = Command("get_server_list");
  return listed.ok() ? Numbers(*listed) : std::vector<pid_t>();
}

Status MpsDaemon::Start() {
  mkdir((options_.folder + "/pipe").c_str(), 0700);
  mkdir((options_.folder + "/log").c_str(), 0700);
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  daemon_ = Spawn(options_.program, {kProgram, "-f"}, Environment(), nothing, nothing);
  close(nothing);
  if (daemon_ < 0) return {Code::kUnavailable, options_.program + ": cannot be started"};
  Clock::time_point until = Clock::now() + kStartPatience;
  Status answers(Code::kTimeout, "");
  while (is_running() && !(answers = Expect("get_server_list")).ok() && Clock::now() < until)
    std::this_thread::sleep_for(kLook);
  if (!is_running()) {
    return {Code::kUnavailable, options_.program + ": the daemon ended at once; see " +
                                    options_.folder + "/log/control.log"};
  }
  FARCALL_TRY(answers);
  if (options_.default_percentage != 0) {
    FARCALL_TRY(Expect("set_default_active_thread_percentage " +
                       std::to_string(options_.default_percentage)));
  }
  for (size_t i = 0; i < options_.default_memory_bytes.size(); ++i) {
    if (options_.default_memory_bytes[i] != 0) {
      FARCALL_TRY(Expect("set_default_device_pinned_mem_limit " + std::to_string(i) + " " +
                         MemoryText(options_.default_memory_bytes[i])));
    }
  }
  return StartServer();
}

Status MpsDaemon::StartServer() {
  FARCALL_TRY(Expect("start_server -uid " + std::to_string(options_.user)));
  Clock::time_point until = Clock::now() + kStartPatience;
  while (State() != ServerState::kActive) {
    if (Clock::now() >= until || !is_running()) {
      return {Code::kUnavailable, options_.program + ": its server does not come up; see " +
                                      options_.folder + "/log/server.log"};
    }
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

Status MpsDaemon::Restart() {
  if (!is_running()) return Start();
  for (pid_t server : Servers()) (void)Expect("shutdown_server " + std::to_string(server) + " -f");
  Clock::time_point until = Clock::now() + kQuitPatience;
  while (!Servers().empty() && is_running() && Clock::now() < until)
    std::this_thread::sleep_for(kLook);
  if (!Servers().empty())  // it does not go: a new daemon, in the same folder
    Stop();
  return is_running() ? StartServer() : Start();
}

void MpsDaemon::Stop() {
  if (!is_running()) return;
  (void)Expect("quit -t " + std::to_string(kQuitPatience.count()));
  Clock::time_point until = Clock::now() + kQuitPatience;
  while (is_running() && Clock::now() < until) std::this_thread::sleep_for(kLook);
  if (is_running()) {
    kill(daemon_, SIGKILL);
    waitpid(daemon_, nullptr, 0);
    daemon_ = -1;
  }
}

MpsDaemon::ServerState MpsDaemon::State() {
  std::vector<pid_t> servers = Servers();
  if (servers.empty()) return ServerState::kNone;
  Result<std::string> status = Command("get_server_status " + std::to_string(servers.front()));
  if (!status.ok()) return ServerState::kNone;
  if (status->find("FAULT") != std::string::npos) return ServerState::kFault;
  return status->find("ACTIVE") != std::string::npos ? ServerState::kActive
                                                     : ServerState::kStarting;
}

std::vector<pid_t> MpsDaemon::Clients() {
  std::vector<pid_t> clients;
  for (pid_t server : Servers()) {
    Result<std::string> listed = Command("get_client_list " + std::to_string(server));
    if (listed.ok()) {
      std::vector<pid_t> of_server = Numbers(*listed);
      clients.insert(clients.end(), of_server.begin(), of_server.end());
    }
  }
  return clients;
}

Status MpsDaemon::Terminate(pid_t client) {
  for (pid_t server : Servers()) {
    Result<std::string> listed = Command("get_client_list " + std::to_string(server));
    std::vector<pid_t> clients = listed.ok() ? Numbers(*listed) : std::vector<pid_t>();
    if (std::find(clients.begin(), clients.end(), client) != clients.end())
      return Expect("terminate_client " + std::to_string(server) + " " + std::to_string(client));
  }
  return {};  // it is no client (any more)
}

Status MpsDaemon::SetPercentage(uint32_t percentage) {
  for (pid_t server : Servers()) {
    FARCALL_TRY(Expect("set_active_thread_percentage " + std::to_string(server) + " " +
                       std::to_string(percentage)));
  }
  return {};
}

Status MpsDaemon::SetMemory(size_t device, uint64_t bytes) {
  for (pid_t server : Servers()) {
    FARCALL_TRY(Expect("set_device_pinned_mem_limit " + std::to_string(server) + " " +
                       std::to_string(device) + " " + MemoryText(bytes)));
  }
  return {};
}

}  // namespace farcall::server
