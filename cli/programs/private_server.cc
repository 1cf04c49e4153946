// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/private_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "cli/output/progress.h"
#include "cli/programs/client_environment.h"
#include "proto/handshake/handshake.h"
#include "proto/log_line.h"
#include "server/supervisor/start_failure.h"

namespace farcall::cli {

// Other users of this machine can reach the port: they lack the token.
std::string FreshToken() {
  std::array<uint8_t, 16> bytes;
  RandomBytes(bytes);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string token;
  for (uint8_t byte : bytes) {
    token += kDigits[byte >> 4];
    token += kDigits[byte & 15];
  }
  return token;
}

namespace {

std::string ReadLine(int fd) {
  std::string line;
  for (char byte; read(fd, &byte, 1) == 1 && byte != '\n';) line += byte;
  return line;
}

// In a child of `parent`: its lines go to `output`.
[[noreturn]] void BecomeServer(pid_t parent, int output, const std::string& program,
                               const std::vector<const char*>& arguments) {
  setpgid(0, 0);  // the terminal's Ctrl-C is for the program
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(125);
  // Of the program, which would find it applied already and count what is left.
  unsetenv("CUDA_VISIBLE_DEVICES");
  // The program's own libraries tell of a level that there is not.
  if (const char* level = std::getenv("FARCALL_LOG");
      level != nullptr && LogSeverityOf(level) == LogSeverity::kOff)
    unsetenv("FARCALL_LOG");
  setenv(server::kTellStarterVariable, "1", 1);
  dup2(output, STDOUT_FILENO);
  execv(program.c_str(), const_cast<char* const*>(arguments.data()));
  _exit(125);
}

}  // namespace

Status PrivateServer::Start(const std::string& device, const std::string& mem,
                            const std::string& report) {
  token_ = FreshToken();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {Code::kUnavailable, "no pipe for the private server"};
  std::string self = OwnPath();
  // In memory, so that neither the process list nor a disk shows it.
  int secret = memfd_create("farcall-token", 0);
  if (secret < 0 ||
      write(secret, token_.data(), token_.size()) != static_cast<ssize_t>(token_.size()))
    return {Code::kUnavailable, "no memory file for the private server's token"};
  std::string token_file = "/proc/self/fd/" + std::to_string(secret);
  std::vector<const char*> arguments = {"farcall",
                                        "serve",
                                        "--listen",
                                        "tcp://127.0.0.1:0",
                                        "--log-level",
                                        "warn",
                                        "--max-share",
                                        "100%",  // its user is alone
                                        "--max-priority",
                                        "high",
                                        "--max-tenant-sessions",
                                        "256",
                                        "--warm-workers",
                                        "0",  // no session comes before the first is started
                                        "--token-file",
                                        token_file.c_str(),
                                        "--device",
                                        device.empty() ? "auto" : device.c_str()};
  if (!mem.empty()) {
    arguments.push_back("--mem");
    arguments.push_back(mem.c_str());
  }
  if (!report.empty()) {
    arguments.push_back("--report");
    arguments.push_back(report.c_str());
  }
  arguments.push_back(nullptr);
  pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) return {Code::kUnavailable, "no process for the private server"};
  if (pid_ == 0) BecomeServer(parent, ends[1], self, arguments);
  close(ends[1]);
  close(secret);
  std::string line;
  {
    const Progress progress("starting a private server");
    line = ReadLine(ends[0]);
  }
  close(ends[0]);
  size_t at = line.find(" on ");
  if (line.rfind("farcall: serving ", 0) != 0 || at == std::string::npos) {
    Stop();
    const std::string failed = "the private server did not start";
    const bool says_why = line.compare(0, server::kNotServing.size(), server::kNotServing) == 0;
    return {Code::kUnavailable,
            says_why ? failed + ": " + line.substr(server::kNotServing.size()) : failed};
  }
  url_ = line.substr(at + 4);
  url_.resize(std::min(url_.find_first_of(" ,"), url_.size()));
  size_t open = line.find('(', at);  // "(cpu: ..."
  if (open != std::string::npos) {
    const size_t colon = line.find(": ", open);
    kind_ = line.substr(open + 1, colon - open - 1);
    if (colon != std::string::npos && line.back() == ')')
      device_ = line.substr(colon + 2, line.size() - colon - 3);
  }
  return {};
}

void PrivateServer::Stop() {
  if (pid_ <= 0) return;
  kill(pid_, SIGTERM);
  // A second signal stops what still drains.
  for (int tries = 0; tries < 300; ++tries) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) {
      pid_ = -1;
      return;
    }
    if (tries == 100) kill(pid_, SIGTERM);
    usleep(10000);
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace farcall::cli
