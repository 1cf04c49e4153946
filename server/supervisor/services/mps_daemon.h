// SPDX-License-Identifier: Apache-2.0
// One control daemon of NVIDIA's MPS and the servers it starts, driven by its own commands: each is
// a run of nvidia-cuda-mps-control with the command on its standard input.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

// The program on PATH.   Errors  kUnavailable (one line)
Result<std::string> FindMpsControl();

struct MpsOptions {
  std::string program;  // nvidia-cuda-mps-control
  std::string folder;   // of its pipes and logs; ours alone, its name short: a socket lies in it
  std::string devices;  // as CUDA_VISIBLE_DEVICES has them, by their UUIDs
  uid_t user = 0;       // whose processes are its clients
  uint32_t default_percentage = 0;             // of the threads, for every client; 0: all
  std::vector<uint64_t> default_memory_bytes;  // by device; 0: no limit of its own
};

// Blocks; one thread at a time.
class MpsDaemon {
 public:
  enum class ServerState { kNone, kStarting, kActive, kFault };

  explicit MpsDaemon(MpsOptions options) : options_(std::move(options)) {}
  ~MpsDaemon() { Stop(); }

  // The daemon, its defaults, and a server that takes clients.   Errors  kUnavailable
  Status Start();
  // The server anew, and the daemon if that is gone. Its clients have to be.   Errors  as Start
  Status Restart();
  void Stop();

  bool is_running();  // the daemon
  ServerState State();
  // Ends a client as the driver wants it: killed amid a kernel it would take the others along.
  Status Terminate(pid_t client);
  // Of the server, for clients that come from now on.
  Status SetPercentage(uint32_t percentage);
  Status SetMemory(size_t device, uint64_t bytes);
  // The processes that are the server's clients.
  std::vector<pid_t> Clients();

  // What a client has in its environment.
  std::vector<std::string> ClientEnvironment() const;
  // "512M": what a memory limit is written as; rounded up.
  static std::string MemoryText(uint64_t bytes);

  // One command and what it printed.   Errors  kUnavailable, kTimeout
  Result<std::string> Command(const std::string& line);

 private:
  Status StartServer();
  std::vector<pid_t> Servers();
  Status Expect(const std::string& line);
  std::vector<std::string> Environment() const;

  const MpsOptions options_;
  pid_t daemon_ = -1;
};

}  // namespace farcall::server
