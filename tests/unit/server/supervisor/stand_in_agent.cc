// SPDX-License-Identifier: Apache-2.0
// A pool's agent that says nothing of its own: it hands its control socket to the test that
// listens at the address --pool= names.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "server/control/control_socket.h"
#include "server/worker/worker.h"

int main(int argc, char** argv) {
  const std::string flag = "--pool=";
  std::string path = argc == 3 ? argv[2] : "";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.rfind(flag, 0) != 0 || path.size() - flag.size() >= sizeof(address.sun_path)) return 2;
  std::strcpy(address.sun_path, path.c_str() + flag.size());
  int test = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connect(test, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return 1;
  const std::byte any{0};
  using farcall::server::control::SendPacket;
  if (!SendPacket(test, std::span(&any, 1), {farcall::server::kControlDescriptor}).ok()) return 1;
  pause();
}
