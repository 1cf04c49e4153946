// SPDX-License-Identifier: Apache-2.0
// `farcall serve` as a child of the test: its ready line, its end, its log.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace farcall::testing {

// The program or library an environment variable names, else the one of this build.
inline std::string Tool(const std::string& variable) {
  const char* path = std::getenv(variable.c_str());
  if (path != nullptr) return path;
  return variable == "FARCALL_BINARY" ? FARCALL_BUILT_BINARY : FARCALL_BUILT_FAKE_CUDA;
}

class ServerProcess {
 public:
  // Starts it on a free port with the fake device unless `arguments` name another; waits for the
  // ready line.
  explicit ServerProcess(std::vector<std::string> arguments = {}, bool default_device = true) {
    std::vector<std::string> all = {Tool("FARCALL_BINARY"), "serve", "--listen",
                                    "tcp://127.0.0.1:0"};
    if (default_device) all.insert(all.end(), {"--device", Tool("FARCALL_FAKE_CUDA")});
    all.insert(all.end(), arguments.begin(), arguments.end());
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      dup2(err[1], 2);
      std::vector<char*> argv;
      for (std::string& argument : all) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_ = fdopen(out[0], "r");
    log_reader_ = std::thread([this, fd = err[0]] {
      char buffer[4096];
      for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;)
        log_.append(buffer, static_cast<size_t>(got));
      close(fd);
    });
    char line[1024] = {};
    if (std::fgets(line, sizeof(line), out_) != nullptr) ready_ = line;
    size_t at = ready_.find("tcp://");
    if (at != std::string::npos) url_ = ready_.substr(at, ready_.find(' ', at) - at);
  }
  ~ServerProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGTERM);
      kill(pid_, SIGTERM);
      for (int i = 0; i < 50 && pid_ > 0; ++i) {
        if (waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
      }
    }
    log_reader_.join();
    std::fclose(out_);
  }
  // Its exit code, or 128 + the signal.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void Signal(int signal) { kill(pid_, signal); }
  pid_t pid() const { return pid_; }

  const std::string& ready() const { return ready_; }
  const std::string& url() const { return url_; }
  // Complete once the process has ended.
  const std::string& log() const { return log_; }
  void FinishLog() {
    log_reader_.join();
    log_reader_ = std::thread([] {});
  }

 private:
  pid_t pid_ = -1;
  FILE* out_ = nullptr;
  std::string ready_, url_, log_;
  std::thread log_reader_;
};

}  // namespace farcall::testing
