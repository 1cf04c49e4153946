// SPDX-License-Identifier: Apache-2.0
#include "pool/http/http_router.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace farcall::pool {

namespace {

constexpr std::chrono::seconds kWritePatience(10);

// A request that has come, and the way for its answer.
class RequestStream final : public httplib::Stream {
 public:
  explicit RequestStream(HttpConnection& connection)
      : connection_(connection), rest_(connection.request()) {}

  bool is_readable() const override { return !rest_.empty(); }
  bool is_writable() const override { return connection_.IsThere(); }
  ssize_t read(char* into, size_t size) override {
    size_t bytes = std::min(size, rest_.size());
    std::memcpy(into, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    return static_cast<ssize_t>(bytes);
  }
  ssize_t write(const char* bytes, size_t size) override {
    if (!connection_.Write(bytes, size, Clock::now() + kWritePatience)) return -1;
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    char host[NI_MAXHOST], service[NI_MAXSERV];
    auto* address = reinterpret_cast<sockaddr*>(&peer);
    if (getpeername(connection_.fd(), address, &bytes) != 0 ||
        getnameinfo(address, bytes, host, sizeof(host), service, sizeof(service),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return;
    ip = host;
    port = std::atoi(service);
  }
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return connection_.fd(); }

 private:
  HttpConnection& connection_;
  std::string_view rest_;
};

}  // namespace

HttpRouter::HttpRouter() {
  svr_sock_ = 0;  // none, but what never ends goes on while there is one
}

bool HttpRouter::Answer(HttpConnection& connection) {
  RequestStream stream(connection);
  bool closes = false;
  bool answered =
      process_request(stream, /*close_connection=*/false, closes,
                      [&connection](httplib::Request& request) { request.ssl = connection.ssl(); });
  return answered && !closes && connection.IsThere();
}

}  // namespace farcall::pool
