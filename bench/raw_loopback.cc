// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace farcall::bench {
namespace {

using Time = std::chrono::steady_clock;
constexpr size_t kPingBytes = 64;
constexpr size_t kStreamBytes = 64u << 20;
constexpr int kPings = 4000;
constexpr int kRounds = 7;

double SecondsSince(Time::time_point start) {
  return std::chrono::duration<double>(Time::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Receives exactly `bytes`, spinning as the policy says before each block; false at the end of the
// stream.
bool ReceiveExactly(int fd, char* into, size_t bytes, const WaitPolicy& policy) {
  while (bytes != 0) {
    Time::time_point spin_end = Time::now() + std::chrono::microseconds(policy.spin_us);
    ssize_t got = recv(fd, into, bytes, MSG_DONTWAIT);
    while (got < 0 && errno == EAGAIN && Time::now() < spin_end) {
      got = recv(fd, into, bytes, MSG_DONTWAIT);
    }
    if (got < 0 && errno == EAGAIN) {
      got = recv(fd, into, bytes, 0);
    }
    if (got <= 0) {
      return false;
    }
    into += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool SendExactly(int fd, const char* from, size_t bytes) {
  while (bytes != 0) {
    ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

void SetNoDelay(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// The other end: connection 0 echoes pings; the rest take the stream and answer each whole one with
// a byte.
void ServePeer(int listener, const WaitPolicy& policy, unsigned lanes) {
  std::vector<std::thread> threads;
  for (unsigned index = 0; index <= lanes; ++index) {
    int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) {
      break;
    }
    SetNoDelay(fd);
    threads.emplace_back([fd, index, lanes, policy] {
      std::vector<char> buffer(index == 0 ? kPingBytes : kStreamBytes / lanes);
      while (ReceiveExactly(fd, buffer.data(), buffer.size(), policy) &&
             SendExactly(fd, buffer.data(), index == 0 ? kPingBytes : 1)) {
      }
      close(fd);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

int ConnectTo(const sockaddr_in& address) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  if (fd >= 0) {
    SetNoDelay(fd);
  }
  return fd;
}

double MeasurePing(int fd, const WaitPolicy& policy) {
  char ping[kPingBytes] = {};
  std::vector<double> each;
  for (int i = 0; i < kPings; ++i) {
    Time::time_point start = Time::now();
    if (!SendExactly(fd, ping, kPingBytes) || !ReceiveExactly(fd, ping, kPingBytes, policy)) {
      break;
    }
    each.push_back(SecondsSince(start) * 1e6);
  }
  return Median(each);
}

double MeasureStream(const std::vector<int>& lanes, const WaitPolicy& policy) {
  std::vector<char> source(kStreamBytes, 1);
  std::vector<double> rates;
  const size_t part = kStreamBytes / lanes.size();
  for (int round = 0; round < kRounds; ++round) {
    Time::time_point start = Time::now();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < lanes.size(); ++i) {
      threads.emplace_back([&, i] {
        char done = 0;
        SendExactly(lanes[i], source.data() + i * part, part);
        ReceiveExactly(lanes[i], &done, 1, policy);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    rates.push_back(kStreamBytes / SecondsSince(start) / 1e9);
  }
  return Median(rates);
}

double MeasureMemcpy() {
  std::vector<char> source(kStreamBytes, 1), target(kStreamBytes);
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    Time::time_point start = Time::now();
    std::memcpy(target.data(), source.data(), kStreamBytes);
    rates.push_back(kStreamBytes / SecondsSince(start) / 1e9);
    source[round] = target[round + 1];  // keeps both buffers live
  }
  return Median(rates);
}

}  // namespace

Result<RawFigures> MeasureRaw(const WaitPolicy& policy, unsigned lanes) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, 16) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Status(Code::kUnavailable,
                  std::string("raw measurement: no loopback socket: ") + std::strerror(errno));
  }
  pid_t child = fork();
  if (child == 0) {
    ServePeer(listener, policy, lanes);
    _exit(0);
  }
  close(listener);
  if (child < 0) {
    return Status(Code::kUnavailable, "raw measurement: fork failed");
  }
  RawFigures figures;
  figures.lanes = lanes;
  int ping = ConnectTo(address);
  std::vector<int> streams;
  for (unsigned i = 0; i < lanes; ++i) {
    streams.push_back(ConnectTo(address));
  }
  char congestion[16] = {};
  socklen_t congestion_length = sizeof(congestion);
  getsockopt(ping, IPPROTO_TCP, TCP_CONGESTION, congestion, &congestion_length);
  figures.congestion.assign(congestion, strnlen(congestion, sizeof(congestion)));
  figures.rtt_us = MeasurePing(ping, policy);
  figures.stream_GBps = MeasureStream(streams, policy);
  figures.memcpy_GBps = MeasureMemcpy();
  close(ping);
  for (int fd : streams) {
    close(fd);
  }
  waitpid(child, nullptr, 0);
  return figures;
}

}  // namespace farcall::bench
