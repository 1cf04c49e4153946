// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "transport/spin.h"
#include "transport/tcp/tcp_channel.h"

namespace farcall::bench {
namespace {

using Time = std::chrono::steady_clock;
constexpr size_t kPingBytes = 64;
constexpr size_t kStreamBytes = 64u << 20;
constexpr int kPings = 4000;
constexpr int kRounds = 7;
constexpr unsigned kPingConnections = 2;

double SecondsSince(Time::time_point start) {
  return std::chrono::duration<double>(Time::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Receives exactly `bytes`, spinning as the policy says before each block; false at the end of the
// stream.
bool ReceiveExactly(int fd, char* into, size_t bytes, SpinPolicy& policy) {
  while (bytes != 0) {
    ssize_t got = recv(fd, into, bytes, MSG_DONTWAIT);
    auto is_empty = [&] { return got < 0 && errno == EAGAIN; };
    if (is_empty()) {
      Spin(policy, [&] {
        got = recv(fd, into, bytes, MSG_DONTWAIT);
        return !is_empty();
      });
    }
    if (is_empty()) got = recv(fd, into, bytes, 0);
    if (got <= 0) return false;
    into += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool SendExactly(int fd, const char* from, size_t bytes) {
  while (bytes != 0) {
    ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

// As the product's connections are.
void Prepare(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  DoNotPaceInsideHost(fd);
}

// The other end. Connection 0 echoes pings and spins, 1 echoes them and blocks; the rest take the
// stream and answer each whole one with a byte.
void ServePeer(int listener, const RawOptions& options) {
  if (options.peer_cpu >= 0) PinToCpu(options.peer_cpu);
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < kPingConnections + options.lanes; ++index) {
    int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) break;
    Prepare(fd);
    threads.emplace_back([fd, index, options] {
      const bool is_ping = index < kPingConnections;
      SpinPolicy policy(std::chrono::microseconds(index == 0 ? options.spin_us : 0));
      std::vector<char> buffer(is_ping ? kPingBytes : kStreamBytes / options.lanes);
      while (ReceiveExactly(fd, buffer.data(), buffer.size(), policy) &&
             SendExactly(fd, buffer.data(), is_ping ? kPingBytes : 1)) {
      }
      close(fd);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

int ConnectTo(const sockaddr_in& address) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  if (fd >= 0) Prepare(fd);
  return fd;
}

double MeasurePing(int fd, unsigned spin_us) {
  SpinPolicy policy{std::chrono::microseconds(spin_us)};
  char ping[kPingBytes] = {};
  std::vector<double> each;
  for (int i = 0; i < kPings; ++i) {
    Time::time_point start = Time::now();
    if (!SendExactly(fd, ping, kPingBytes) || !ReceiveExactly(fd, ping, kPingBytes, policy)) break;
    each.push_back(SecondsSince(start) * 1e6);
  }
  return Median(each);
}

void MeasureStream(const std::vector<int>& lanes, RawFigures* figures) {
  std::vector<char> source(kStreamBytes, 1);
  std::vector<double> rates;
  const size_t part = kStreamBytes / lanes.size();
  const double cpu_s = ProcessCpuSeconds();
  for (int round = 0; round < kRounds; ++round) {
    Time::time_point start = Time::now();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < lanes.size(); ++i) {
      threads.emplace_back([&, i] {
        char done = 0;
        SendExactly(lanes[i], source.data() + i * part, part);
        SpinPolicy policy{SpinPolicy::Ns::zero()};
        ReceiveExactly(lanes[i], &done, 1, policy);
      });
    }
    for (std::thread& thread : threads) thread.join();
    rates.push_back(kStreamBytes / SecondsSince(start) / 1e9);
  }
  figures->stream_GBps = Median(rates);
  figures->stream_cpu_s_per_GiB =
      (ProcessCpuSeconds() - cpu_s) * (1u << 30) / (kRounds * static_cast<double>(kStreamBytes));
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

void PinToCpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Result<RawFigures> MeasureRaw(const RawOptions& options) {
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
    ServePeer(listener, options);
    _exit(0);
  }
  close(listener);
  if (child < 0) return Status(Code::kUnavailable, "raw measurement: fork failed");
  RawFigures figures;
  figures.lanes = options.lanes;
  int ping = ConnectTo(address), blocking = ConnectTo(address);
  std::vector<int> streams;
  for (unsigned i = 0; i < options.lanes; ++i) streams.push_back(ConnectTo(address));
  char congestion[16] = {};
  socklen_t congestion_length = sizeof(congestion);
  getsockopt(ping, IPPROTO_TCP, TCP_CONGESTION, congestion, &congestion_length);
  figures.congestion.assign(congestion, strnlen(congestion, sizeof(congestion)));
  figures.rtt_us = MeasurePing(ping, options.spin_us);
  figures.rtt_blocking_us = MeasurePing(blocking, 0);
  MeasureStream(streams, &figures);
  figures.memcpy_GBps = MeasureMemcpy();
  close(ping);
  close(blocking);
  for (int fd : streams) close(fd);
  waitpid(child, nullptr, 0);
  return figures;
}

}  // namespace farcall::bench
