// SPDX-License-Identifier: Apache-2.0
// A FAKE libcuda.so.1 for tests of modes: the CPU device under a name by which the server takes it
// for NVIDIA's. It writes down what its process was given in its environment, counts as a client of
// the fake MPS daemon, and takes a MIG instance's name for its first device.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

extern char** environ;

namespace {

__attribute__((constructor)) void Begin() {
  std::string line = "pid=" + std::to_string(getpid());
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::strncmp(*entry, "CUDA_", 5) == 0) line += std::string(" ") + *entry;
  line += "\n";
  if (const char* log = std::getenv("FAKE_GPU_LOG")) {
    int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)!write(file, line.data(), line.size());
    close(file);
  }
  if (const char* pipes = std::getenv("CUDA_MPS_PIPE_DIRECTORY")) {
    std::string path = std::string(pipes) + "/client-" + std::to_string(getpid());
    close(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
  if (devices != nullptr && std::strncmp(devices, "MIG-", 4) == 0)
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
}

}  // namespace
