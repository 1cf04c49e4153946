// SPDX-License-Identifier: Apache-2.0
// What unauthenticated_test.py sends to a port where handshakes are heard: one honest client, and
// floods.
//
//   unauthenticated_peer MODE PORT SOURCE SECONDS [COUNT]     token of the honest: FARCALL_TOKEN
//
// From the loopback address SOURCE, for so long. `honest` and `honest-pool` print for each try the
// milliseconds until they are in, or why they are not. The floods hold COUNT connections, or make
// new ones as fast as they can.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "proto/handshake/session_features.h"
#include "transport/handshake.h"

namespace farcall {
namespace {

using std::chrono::milliseconds;

struct Target {
  uint16_t port = 0;
  const char* source = "127.0.0.1";
  Clock::time_point end;
  size_t count = 0;
};

sockaddr_in AddressOf(const char* host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

// A socket that is connecting, or -1.
int Connect(const Target& target) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  sockaddr_in from = AddressOf(target.source, 0), to = AddressOf("127.0.0.1", target.port);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof(from)) != 0 ||
      (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 && errno != EINPROGRESS)) {
    close(fd);
    return -1;
  }
  return fd;
}

Status Try(const Target& target, bool is_pool, const ClientCredentials& credentials,
           Clock::time_point deadline) {
  const int fd = Connect(target);
  if (fd < 0) return {Code::kUnavailable, std::string("connect: ") + strerror(errno)};
  std::unique_ptr<Channel> channel = AdoptSocket(fd);
  if (!channel->WaitWritable(deadline)) return {Code::kTimeout, "not accepted"};
  Hello hello;
  hello.program = "unauthenticated_peer";
  hello.features = FeatureBit(SessionFeature::kRedirect);
  if (is_pool) {
    hello.features |= FeatureBit(SessionFeature::kPoolAddresses);
    return PoolHandshake(*channel, hello, credentials, deadline).status();
  }
  return ClientHandshake(*channel, hello, credentials, deadline).status();
}

void BeHonest(const Target& target, bool is_pool) {
  const char* token = getenv("FARCALL_TOKEN");
  const ClientCredentials credentials = ClientCredentials::OfToken(token == nullptr ? "" : token);
  while (Clock::now() < target.end) {
    const Clock::time_point begin = Clock::now();
    Status in;
    do {  // as a client does (client-shim/core/connection/connect.cc)
      in = Try(target, is_pool, credentials, begin + std::chrono::seconds(5));
    } while (in.code() == Code::kDisconnected && Clock::now() < begin + std::chrono::seconds(1));
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    if (in.ok())
      std::printf("%.1f\n", took.count());
    else
      std::printf("not after %.1f ms: %s\n", took.count(), in.message().c_str());
    std::fflush(stdout);
    std::this_thread::sleep_for(milliseconds(30));
  }
}

// ---- Floods that end a connection as soon as they can.

void GuessTokens(const Target& target) {
  const ClientCredentials wrong = ClientCredentials::OfToken("no token of this server's, but long");
  while (Clock::now() < target.end)
    (void)Try(target, false, wrong, Clock::now() + std::chrono::seconds(1));
}

// Some thousands a second. More, and the kernel drops some before the server sees them: on one
// machine, those who flood and the server share its processors.
void ConnectOnly(const Target& target) {
  while (Clock::now() < target.end) {
    close(Connect(target));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void SendGarbage(const Target& target) {
  // Now no HELLO at all, now one of the right form that no key opens.
  std::vector<std::byte> sealed = *MakePacket(HandshakeType::kHello, std::vector<std::byte>(300));
  std::vector<std::byte> text(300, std::byte{'x'});
  for (bool which = false; Clock::now() < target.end; which = !which) {
    const int fd = Connect(target);
    if (fd < 0) continue;
    pollfd ready{fd, POLLOUT, 0};
    const std::vector<std::byte>& bytes = which ? sealed : text;
    if (poll(&ready, 1, 100) == 1) (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(fd);
  }
}

// ---- Floods that hold connections, and open those again that the server closed.

struct Held {
  size_t first_bytes;  // of a HELLO that each sends once it is there
  milliseconds pause;  // between one more byte of it; 0: none follows
};

void Hold(const Target& target, const Held& how) {
  const std::vector<std::byte> hello =
      *MakePacket(HandshakeType::kHello, std::vector<std::byte>(60'000));
  std::vector<pollfd> held(target.count, {-1, POLLIN, 0});
  std::vector<size_t> said(target.count);
  std::array<char, 4096> rest;
  Clock::time_point drip_at = Clock::now();
  while (Clock::now() < target.end) {
    const bool drips = how.pause.count() != 0 && Clock::now() >= drip_at;
    if (drips) drip_at = Clock::now() + how.pause;
    for (size_t i = 0; i < held.size(); ++i) {
      pollfd& at = held[i];
      if (at.fd >= 0 && at.revents != 0 && recv(at.fd, rest.data(), rest.size(), 0) <= 0) {
        close(at.fd);
        at.fd = -1;
      }
      if (at.fd < 0) {
        at.fd = Connect(target);
        said[i] = 0;
      }
      at.revents = 0;
      const size_t bytes = said[i] < how.first_bytes ? how.first_bytes - said[i] : drips ? 1 : 0;
      if (at.fd < 0 || bytes == 0) continue;
      const ssize_t sent = send(at.fd, hello.data() + said[i], bytes, MSG_NOSIGNAL);
      said[i] += sent > 0 ? static_cast<size_t>(sent) : 0;
    }
    (void)poll(held.data(), held.size(), 10);
  }
}

int Main(int argc, char** argv) {
  if (argc < 5) return 2;
  signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const std::string_view mode = argv[1];
  const Target target{static_cast<uint16_t>(std::atoi(argv[2])), argv[3],
                      Clock::now() + milliseconds(static_cast<int>(1000 * std::atof(argv[4]))),
                      argc > 5 ? static_cast<size_t>(std::atoi(argv[5])) : 0};
  if (mode == "honest" || mode == "honest-pool")
    BeHonest(target, mode == "honest-pool");
  else if (mode == "wrong-tokens")
    GuessTokens(target);
  else if (mode == "connects")
    ConnectOnly(target);
  else if (mode == "garbage")
    SendGarbage(target);
  else if (mode == "silence")
    Hold(target, {0, milliseconds(0)});
  else if (mode == "half")
    Hold(target, {2500, milliseconds(0)});
  else if (mode == "drip")
    Hold(target, {1, milliseconds(20)});
  else
    return 2;
  return 0;
}

}  // namespace
}  // namespace farcall

int main(int argc, char** argv) {
  return farcall::Main(argc, argv);
}
