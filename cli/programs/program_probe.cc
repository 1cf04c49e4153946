// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/program_probe.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/programs/scratch_folder.h"
#include "proto/exec_arguments.h"

namespace farcall::cli {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void Exec(const std::vector<std::string>& command) {
  setpgid(0, 0);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  const std::vector<char*> arguments = ExecArguments(command);
  execvp(arguments[0], arguments.data());
  int error = errno;
  std::fprintf(stderr, "farcall doctor: %s: %s\n", arguments[0], std::strerror(error));
  _exit(error == ENOENT ? 127 : 126);
}

// Ends the whole process group: first politely.
int WaitAtMost(pid_t child, int seconds, bool* timed_out) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  auto killing = deadline + std::chrono::seconds(3);
  int status = 0;
  for (;;) {
    pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child || (done < 0 && errno != EINTR)) return status;
    auto now = std::chrono::steady_clock::now();
    if (now >= deadline) kill(-child, now >= killing ? SIGKILL : SIGTERM);
    *timed_out = now >= deadline;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool SameLookup(const LibraryLookup& a, const LibraryLookup& b) {
  return a.name == b.name && a.file == b.file && a.reason == b.reason;
}

std::vector<LibraryLookup> ReadLookups(const fs::path& folder) {
  std::vector<fs::path> logs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().rfind("loader.", 0) == 0) logs.push_back(entry.path());
  std::sort(logs.begin(), logs.end());
  std::vector<LibraryLookup> all;
  for (const fs::path& path : logs) {
    std::ifstream log(path);
    for (LibraryLookup& lookup : ParseLoaderLog(log)) {
      auto same = [&](const LibraryLookup& known) { return SameLookup(known, lookup); };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(lookup));
    }
  }
  return all;
}

std::vector<std::string> ReadLines(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream log(path);
  for (std::string line; std::getline(log, line);)
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  return lines;
}

}  // namespace

Result<ProgramReport> ProbeProgram(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment, int seconds) {
  ScratchFolder scratch("farcall-doctor");
  const fs::path folder = scratch.path();
  if (folder.empty())
    return Status{Code::kUnavailable,
                  "no folder for the loader's log: set TMPDIR to one that can be written"};
  std::fflush(nullptr);
  pid_t child = fork();
  if (child < 0) return Status{Code::kUnavailable, "no process for the program"};
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    setenv("LD_DEBUG", "libs,files", 1);
    setenv("LD_DEBUG_OUTPUT", (folder / "loader").c_str(), 1);
    setenv("FARCALL_LOG", "info", 1);
    setenv("FARCALL_LOG_FILE", (folder / "shim.log").c_str(), 1);
    Exec(command);
  }
  ProgramReport report;
  int status = WaitAtMost(child, seconds, &report.timed_out);
  report.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  report.lookups = ReadLookups(folder);
  report.log = ReadLines(folder / "shim.log");
  return report;
}

}  // namespace farcall::cli
