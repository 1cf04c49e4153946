// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/process/process.h"

#include <signal.h>

#include <cstdio>
#include <utility>

#include "pool/process/stop_signals.h"
#include "proto/log_line.h"
#include "proto/printable.h"
#include "settings/exit_code.h"

namespace farcall::k8s {

namespace {
constexpr int kLookSeconds = 60, kRetrySeconds = 2;
}  // namespace

void Process::Say(const std::string& line) const {
  LogLine(LogSeverity::kInfo, ("k8s-" + std::string(name)).c_str(), line);
}

void Process::Warn(const std::string& line) const {
  LogLine(LogSeverity::kWarn, ("k8s-" + std::string(name)).c_str(), line);
}

int Process::Fail(int code, const std::string& why) const {
  std::fprintf(stderr, "farcall pool k8s %s: %s\n", name, Printable(why, kMaxMessageBytes).c_str());
  return code;
}

Result<HostPort> ListenAddress(const std::string& listen) {
  Result<Url> url = ParseUrl("tcp://" + listen);
  Result<HostPort> where = url.ok() ? ParseHostPort(*url) : Result<HostPort>(url.status());
  if (!where.ok())
    return Status(Code::kInvalid, "--listen " + Quoted(listen) + ": write host:port");
  return where;
}

Result<std::string> ContainerEndpoint(const pool::PoolAddress& pool, const std::string& endpoint) {
  if (!endpoint.empty()) {
    Result<std::string> whole = WholeEndpoint(endpoint);
    if (whole.ok() && !IsPoolUrl(*whole))
      return Status(Code::kInvalid, "--endpoint " + Quoted(endpoint) +
                                        ": write pool://host:port or pools://host:port");
    return whole;
  }
  Result<Url> url = ParseUrl(pool.url);
  if (!url.ok()) return url.status();
  Result<HostPort> where = ParseHostPort(*url);
  if (!where.ok()) return where.status();
  return (pool.is_tls() ? "pools://" : "pool://") + FormatHostPort(where->host, kPoolPort);
}

bool WaitForStop(int seconds) {
  const sigset_t signals = pool::StopSignals();
  if (seconds < 0) {
    int signal = 0;
    return sigwait(&signals, &signal) == 0;
  }
  const timespec patience{seconds, 0};
  return sigtimedwait(&signals, nullptr, &patience) > 0;
}

Upkeep::Upkeep(const Process& process, std::function<Status()> refresh)
    : process_(process), refresh_(std::move(refresh)) {}

Status Upkeep::Refresh() {
  Status done = refresh_();
  if (!done.ok() && done.message() != said_) process_.Warn(done.message());
  said_ = done.message();
  return done;
}

std::optional<int> Upkeep::Begin() {
  for (Status done = Refresh(); !done.ok(); done = Refresh()) {
    if (done.code() == Code::kInvalid) return kExitUsage;
    if (WaitForStop(kRetrySeconds)) return kExitOk;
  }
  return std::nullopt;
}

void Upkeep::Run() {
  while (!WaitForStop(said_.empty() ? kLookSeconds : kRetrySeconds)) (void)Refresh();
}

}  // namespace farcall::k8s
