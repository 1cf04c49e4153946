// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "proto/printable.h"
#include "transport/poll.h"
#include "transport/shm/shm_channel.h"
#include "transport/tcp/tcp_channel.h"

namespace farcall {
namespace {

constexpr auto kRetryPause = std::chrono::milliseconds(2);

Status Failed(const Url& url, const std::string& what, Code code = Code::kUnavailable) {
  return {code, "endpoint \"" + Printable(url.text, 200) + "\": " + what};
}

Result<sockaddr_un> AddressOf(const Url& url) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (url.rest.empty() || url.rest[0] != '/')
    return Failed(url, "names no path; write shm:///path/of/its/socket", Code::kInvalid);
  if (url.rest.size() >= sizeof(address.sun_path)) {
    return Failed(url,
                  "a path of " + std::to_string(url.rest.size()) + " bytes; a socket's has " +
                      std::to_string(sizeof(address.sun_path) - 1) + " at most",
                  Code::kInvalid);
  }
  std::memcpy(address.sun_path, url.rest.c_str(), url.rest.size() + 1);
  return address;
}

int MakeSocket() {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int ConnectOnce(int fd, const sockaddr_un& address) {
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

// A killed server's: there is a socket, and nobody listens on it.
bool IsLeftBehind(const sockaddr_un& address) {
  struct stat status {};
  if (lstat(address.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const int fd = MakeSocket();
  const bool is_refused = fd >= 0 && ConnectOnce(fd, address) == ECONNREFUSED;
  close(fd);
  return is_refused;
}

class ShmListener final : public Listener {
 public:
  ShmListener(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~ShmListener() override {
    Close();
    close(fd_);
  }

  Result<std::unique_ptr<Channel>> Accept(Clock::time_point deadline) override {
    for (;;) {
      const int fd = is_closed_ ? -1 : accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) {
        const std::span<const std::byte> state = RingState();
        return MakeSocketChannel(fd, UnixPeerName(fd), {state.begin(), state.end()});
      }
      if (is_closed_) return Status(Code::kDisconnected, Url() + ": no longer listening");
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        return Status(Code::kUnavailable, Url() + ": accept: " + strerror(errno));
      const bool would_block = errno == EAGAIN || errno == EWOULDBLOCK;
      pollfd poll{fd_, POLLIN, 0};
      if (would_block && !PollUntil({&poll, 1}, deadline))
        return Status(Code::kTimeout, Url() + ": nobody connected");
    }
  }
  void Close() override {
    if (!is_closed_.exchange(true)) {
      unlink(path_.c_str());
      shutdown(fd_, SHUT_RDWR);
    }
  }
  int PollDescriptor() const override { return fd_; }
  std::string Url() const override { return "shm://" + path_; }

 private:
  const int fd_;
  const std::string path_;
  std::atomic<bool> is_closed_{false};
};

}  // namespace

Result<std::unique_ptr<Channel>> DialShm(const Url& url, Clock::time_point deadline) {
  Result<sockaddr_un> address = AddressOf(url);
  if (!address.ok()) return address.status();
  const int fd = MakeSocket();
  if (fd < 0) return Failed(url, std::string("socket: ") + strerror(errno));
  int error = ConnectOnce(fd, *address);
  // A full queue says EAGAIN, and nothing tells when it has room.
  while ((error == EAGAIN || error == EINTR) && Clock::now() < deadline) {
    PollUntil({}, Clock::now() + kRetryPause);
    error = ConnectOnce(fd, *address);
  }
  if (error == 0) return AwaitRings(fd, url.rest);
  close(fd);
  std::string message = strerror(error);
  if (error == ECONNREFUSED || error == ENOENT)
    message += "; nothing listens there (is `farcall serve --shm " + url.rest + "` running?)";
  if (error == EACCES || error == EPERM) {
    message += "; user " + std::to_string(geteuid()) +
               " may not open this socket (a server with a token or --shm-users lets others)";
  }
  return Failed(url, message, error == EAGAIN ? Code::kTimeout : Code::kUnavailable);
}

Result<std::unique_ptr<Listener>> ListenShm(const Url& url) {
  Result<sockaddr_un> address = AddressOf(url);
  if (!address.ok()) return address.status();
  const int fd = MakeSocket();
  if (fd < 0) return Failed(url, std::string("socket: ") + strerror(errno));
  if (IsLeftBehind(*address)) unlink(address->sun_path);
  // Nobody can connect before it listens, and then only this user.
  if (bind(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0 ||
      chmod(address->sun_path, 0600) != 0 || listen(fd, SOMAXCONN) != 0) {
    const Status failed = Failed(url, std::string("cannot listen: ") + strerror(errno));
    close(fd);
    return failed;
  }
  return std::unique_ptr<Listener>(std::make_unique<ShmListener>(fd, url.rest));
}

Status OpenToUsers(const std::string& path) {
  return chmod(path.c_str(), 0666) == 0
             ? Status()
             : Status(Code::kUnavailable, path + ": chmod: " + strerror(errno));
}

}  // namespace farcall
