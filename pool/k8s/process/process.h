// SPDX-License-Identifier: Apache-2.0
// What the processes of `farcall pool k8s` have in common: lines on stderr, the address to listen
// on, and upkeep until they are asked to end.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "pool/client/rest_client.h"
#include "proto/status.h"
#include "transport/url.h"

namespace farcall::k8s {

// One of them, by its subcommand's name.
struct Process {
  const char* name;

  // Lines of the log, of component k8s-NAME: what was done, and what was not.
  void Say(const std::string& line) const;
  void Warn(const std::string& line) const;
  // Says on stderr why it does not start, and returns `code`.
  int Fail(int code, const std::string& why) const;
};

// Of `--listen`.   Errors  kInvalid (one line)
Result<HostPort> ListenAddress(const std::string& listen);

// Where containers reach the pool: `endpoint`, or if that is "" port 7718 of the pool's own host,
// pools:// of https://.   Errors  kInvalid (one line)
Result<std::string> ContainerEndpoint(const pool::PoolAddress& pool, const std::string& endpoint);

// Whether the process is asked to end, within that many seconds; -1: however long it takes.
//   Thread  with the signals of pool/process/stop_signals.h blocked
bool WaitForStop(int seconds);

// The pool, asked for that many seconds at most.
inline pool::PoolAddress WithPatience(pool::PoolAddress pool, int seconds) {
  pool.patience_s = seconds;
  return pool;
}

// Does something again each minute, and soon where it failed. A failure is said once.
class Upkeep {
 public:
  Upkeep(const Process& process, std::function<Status()> refresh);

  // Until it has succeeded once; else the exit code: asked to end, or kInvalid.
  std::optional<int> Begin();
  // Until the process is asked to end.
  void Run();

 private:
  Status Refresh();

  const Process process_;
  const std::function<Status()> refresh_;
  std::string said_;
};

}  // namespace farcall::k8s
