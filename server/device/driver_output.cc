// SPDX-License-Identifier: Apache-2.0
#include "server/device/driver_output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

// The sanitizers' own interface: their reports are the server's, also when they end the process.
extern "C" __attribute__((weak)) void __sanitizer_set_report_fd(void* fd);

namespace farcall::server {

namespace {

constexpr int kPipeBytes = 1 << 20;
std::atomic<int> g_error{-1};  // the read end of the captured standard error
std::atomic<int> g_log{-1};    // what the standard error was
std::atomic<std::FILE*> g_own{nullptr};

// Returns the read end of a pipe whose other end takes the place of `descriptor`.
int Capture(int descriptor) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
  if (dup2(ends[1], descriptor) < 0) {
    close(ends[0]);
    ends[0] = -1;
  }
  close(ends[1]);
  return ends[0];
}

void WriteLog(const void* bytes, size_t count) {
  ssize_t written = write(g_log.load(), bytes, count);
  (void)written;  // the server bounds what it reads; what it does not take is lost
}

// glibc and the driver say why they abort on the standard error, which nobody would read any more.
void OnAbort(int signal) {
  LogPendingErrors();
  ::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

CapturedOutput CaptureDriverOutput() {
  CapturedOutput captured;
  captured.output = Capture(STDOUT_FILENO);
  const int log = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  std::FILE* own = log < 0 ? nullptr : fdopen(log, "w");
  if (own == nullptr) return captured;
  setvbuf(own, nullptr, _IOLBF, BUFSIZ);
  g_log = log;
  g_own = own;
  if (__sanitizer_set_report_fd != nullptr)
    __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<intptr_t>(log)));
  captured.error = Capture(STDERR_FILENO);
  g_error = captured.error;
  signal(SIGABRT, OnAbort);
  return captured;
}

void LogDriverError(std::span<const std::byte> bytes) {
  WriteLog(bytes.data(), bytes.size());
}

void LogPendingErrors() {
  char buffer[4096];
  const int error = g_error.load();
  for (ssize_t got; error >= 0 && (got = read(error, buffer, sizeof(buffer))) > 0;)
    WriteLog(buffer, static_cast<size_t>(got));
}

std::FILE* OwnLog() {
  std::FILE* own = g_own.load();
  return own == nullptr ? stderr : own;
}

}  // namespace farcall::server
