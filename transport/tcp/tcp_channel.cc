// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "proto/printable.h"
#include "proto/text_file.h"
#include "transport/poll.h"

namespace farcall {
namespace {

constexpr size_t kMaxParts = 64;

std::string ErrorText(int error) {
  char buffer[128];
  const char* text = strerror_r(error, buffer, sizeof(buffer));
  return text;
}

std::string AddressName(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return FormatHostPort(text, ntohs(v4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return FormatHostPort(text, ntohs(v6.sin6_port));
  }
  return "local socket";
}

// By number: libc's own are points at which a thread can be cancelled, and it would leave locks of
// ours behind. Nor do they cost the 30 instructions of being such a point.
ssize_t SendMessage(int fd, const msghdr& message) {
  return syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}
ssize_t ReceiveNow(int fd, void* into, size_t bytes) {
  return syscall(SYS_recvfrom, fd, into, bytes, MSG_DONTWAIT, nullptr, nullptr);
}

class SocketChannel final : public Channel {
 public:
  SocketChannel(int fd, std::string peer, std::vector<std::byte> state = {})
      : fd_(fd), peer_(std::move(peer)), user_(UnixPeerUser(fd)), state_(std::move(state)) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on,
               sizeof(on));  // this and the next have no effect on a UNIX socket
    // A bulk lane may idle for hours: keeps address translators from forgetting it, and finds out
    // when they did.
    int idle_s = 15, interval_s = 5, probes = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  }
  ~SocketChannel() override {
    if (fd_ < 0) return;
    // Unread bytes at close(2) would turn the orderly end into a reset, which discards what we sent
    // last.
    std::array<char, 4096> rest;
    for (int i = 0; i < 1024 && recv(fd_, rest.data(), rest.size(), MSG_DONTWAIT) > 0; ++i) {
    }
    close(fd_);
  }

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    std::array<iovec, kMaxParts> vectors;
    size_t count = std::min(parts.size(), kMaxParts);
    for (size_t i = 0; i < count; ++i)
      vectors[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    for (;;) {
      ssize_t sent = SendMessage(fd_, message);
      if (sent >= 0) return static_cast<size_t>(sent);
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return size_t{0};
      return Lost("send", errno);
    }
  }

  Result<size_t> TryReceive(std::span<std::byte> into) override {
    if (into.empty()) return size_t{0};
    for (;;) {
      ssize_t got = ReceiveNow(fd_, into.data(), into.size());
      if (got > 0) return static_cast<size_t>(got);
      if (got == 0) {
        return Status(Code::kDisconnected, closed_ ? peer_ + ": connection closed by this side"
                                                   : peer_ + ": connection closed by the peer");
      }
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
      return Lost("receive", errno);
    }
  }

  bool WaitReadable(Clock::time_point deadline, int wake_fd) override {
    std::array<pollfd, 2> fds = {{{fd_, POLLIN, 0}, {wake_fd, POLLIN, 0}}};
    PollUntil({fds.data(), wake_fd < 0 ? 1u : 2u}, deadline);
    return fds[0].revents != 0 || closed_;
  }
  bool WaitWritable(Clock::time_point deadline) override {
    pollfd fd{fd_, POLLOUT, 0};
    PollUntil({&fd, 1}, deadline);
    return fd.revents != 0 || closed_;
  }
  // The descriptor itself lives until the destructor, so that no waiter ever polls a number that
  // was reused.
  void Close() override {
    if (!closed_.exchange(true)) shutdown(fd_, SHUT_RDWR);
  }
  void Abandon() override {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int Descriptor() const override { return fd_; }
  std::string PeerName() const override { return peer_; }
  std::optional<uint32_t> PeerUser() const override { return user_; }
  std::optional<std::chrono::microseconds> RoundTrip() const override {
    tcp_info info{};
    socklen_t bytes = sizeof(info);
    if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_rtt == 0)
      return std::nullopt;
    return std::chrono::microseconds(info.tcpi_rtt);
  }
  Result<std::vector<std::byte>> HandOver() override { return state_; }

 private:
  Status Lost(const char* doing, int error) const {
    if (closed_) return {Code::kDisconnected, peer_ + ": connection closed by this side"};
    return {Code::kDisconnected, peer_ + ": " + doing + ": " + ErrorText(error)};
  }

  int fd_;
  std::atomic<bool> closed_ = false;
  const std::string peer_;
  const std::optional<uint32_t> user_;
  const std::vector<std::byte> state_;
};

class TcpListener final : public Listener {
 public:
  TcpListener(int fd, std::string url) : fd_(fd), url_(std::move(url)) {}
  ~TcpListener() override { close(fd_); }

  Result<std::unique_ptr<Channel>> Accept(Clock::time_point deadline) override {
    for (;;) {
      sockaddr_storage address{};
      socklen_t bytes = sizeof(address);
      int fd = closed_ ? -1
                       : accept4(fd_, reinterpret_cast<sockaddr*>(&address), &bytes,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) {
        DoNotPaceInsideHost(fd);
        return std::unique_ptr<Channel>(std::make_unique<SocketChannel>(fd, AddressName(address)));
      }
      if (closed_) return Status(Code::kDisconnected, url_ + ": no longer listening");
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        return Status(Code::kUnavailable, url_ + ": accept: " + ErrorText(errno));
      pollfd poll{fd_, POLLIN, 0};
      bool would_block =
          errno == EAGAIN || errno == EWOULDBLOCK;  // else this one caller is gone: try the next
      if (would_block && !PollUntil({&poll, 1}, deadline))
        return Status(Code::kTimeout, url_ + ": nobody connected");
    }
  }
  void Close() override {
    if (!closed_.exchange(true)) shutdown(fd_, SHUT_RDWR);
  }
  int PollDescriptor() const override { return fd_; }
  std::string Url() const override { return url_; }

 private:
  const int fd_;
  std::atomic<bool> closed_ = false;
  const std::string url_;
};

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

Status Resolve(const Url& url, const HostPort& at, bool passive, AddressList& list) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  int error = getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &list.first);
  if (error != 0) {
    const char* why = error == EAI_SYSTEM ? "system error" : gai_strerror(error);
    return {Code::kUnavailable,
            "endpoint \"" + url.text + "\": host \"" + at.host + "\" cannot be resolved: " + why};
  }
  return {};
}

// Connects one address; 0 or an errno.
int Connect(int fd, const addrinfo& address, Clock::time_point deadline) {
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  pollfd poll{fd, POLLOUT, 0};
  if (!PollUntil({&poll, 1}, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t bytes = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error;
}

}  // namespace

bool IsInsideHost(int fd) {
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof(own), peer_bytes = sizeof(peer);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0 ||
      own.ss_family != peer.ss_family)
    return false;
  if (own.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(own).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(peer).sin_addr.s_addr;
  }
  return own.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(own).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr, sizeof(in6_addr)) == 0;
}

void DoNotPaceInsideHost(int fd) {
  if (IsInsideHost(fd)) setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

Status SetCongestionControl(int fd, const std::string& name) {
  if (CongestionControlOf(fd).empty() || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                                                    static_cast<socklen_t>(name.size())) == 0)
    return {};
  const Result<std::string> allowed =
      ReadTextFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::string names = allowed.ok() ? *allowed : "those of tcp_allowed_congestion_control";
  names.resize(std::min(names.size(), names.find('\n')));
  return {Code::kInvalid, Quoted(name) +
                              " is no congestion control for this user; this machine "
                              "lets it choose: " +
                              Printable(names)};
}

Status CheckCongestionControl(const std::string& name) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};  // no IPv4: the connection will tell
  Status checked = SetCongestionControl(fd, name);
  close(fd);
  return checked;
}

std::string CongestionControlOf(int fd) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t bytes = name.size();
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes) != 0) return {};
  return {name.data(), strnlen(name.data(), name.size())};
}

Result<std::unique_ptr<Channel>> DialTcp(const Url& url, Clock::time_point deadline) {
  Result<HostPort> at = ParseHostPort(url);
  if (!at.ok()) return at.status();
  if (at->port == 0) {
    return Status(Code::kInvalid, "endpoint \"" + url.text +
                                      "\": port 0 cannot be dialled; name the server's port");
  }
  AddressList list;
  FARCALL_TRY(Resolve(url, *at, false, list));
  int error = ECONNREFUSED;
  for (const addrinfo* address = list.first; address != nullptr; address = address->ai_next) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    error = Connect(fd, *address, deadline);
    if (error == 0) {
      DoNotPaceInsideHost(fd);
      return std::unique_ptr<Channel>(
          std::make_unique<SocketChannel>(fd, FormatHostPort(at->host, at->port)));
    }
    close(fd);
  }
  std::string message = "endpoint \"" + url.text + "\": " + ErrorText(error);
  if (error == ECONNREFUSED) message += "; nothing listens there (is `farcall serve` running?)";
  if (error == ETIMEDOUT) message += "; no answer (host down, or a firewall drops the port)";
  return Status(error == ETIMEDOUT ? Code::kTimeout : Code::kUnavailable, message);
}

Result<std::unique_ptr<Listener>> ListenTcp(const Url& url) {
  Result<HostPort> at = ParseHostPort(url);
  if (!at.ok()) return at.status();
  AddressList list;
  FARCALL_TRY(Resolve(url, *at, true, list));
  const addrinfo& address = *list.first;
  int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return Status(Code::kUnavailable, "endpoint \"" + url.text + "\": socket: " + ErrorText(errno));
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) {
    int error = errno;
    close(fd);
    return Status(Code::kUnavailable,
                  "endpoint \"" + url.text + "\": cannot listen: " + ErrorText(error));
  }
  return std::unique_ptr<Listener>(
      std::make_unique<TcpListener>(fd, "tcp://" + AddressName(bound)));
}

std::string PeerAddress(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    address.ss_family = AF_UNIX;
  return address.ss_family == AF_UNIX ? UnixPeerName(fd) : AddressName(address);
}

std::unique_ptr<Channel> AdoptSocket(int fd) {
  return MakeSocketChannel(fd, PeerAddress(fd));
}

std::unique_ptr<Channel> MakeSocketChannel(int fd, std::string peer, std::vector<std::byte> state) {
  return std::make_unique<SocketChannel>(fd, std::move(peer), std::move(state));
}

std::optional<uint32_t> UnixPeerUser(int fd) {
  int domain = 0;
  ucred peer{};
  socklen_t domain_bytes = sizeof(domain), bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes) != 0 || domain != AF_UNIX ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    return std::nullopt;
  return peer.uid;
}

std::string UnixPeerName(int fd) {
  const std::optional<uint32_t> user = UnixPeerUser(fd);
  return user ? "local user " + std::to_string(*user) : "local socket";
}

}  // namespace farcall
