// SPDX-License-Identifier: Apache-2.0
#include "pool/client/kept_clients.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>

namespace farcall::pool {
namespace {

std::function<std::unique_ptr<httplib::Client>()> To(int port) {
  return [port] { return std::make_unique<httplib::Client>("127.0.0.1", port); };
}

TEST(KeptClients, RequestsUseOneConnection) {
  httplib::Server server;
  std::set<int> ports;
  server.Get("/", [&](const httplib::Request& request, httplib::Response& response) {
    ports.insert(request.remote_port);
    response.set_content("ok", "text/plain");
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread thread([&] { server.listen_after_bind(); });
  {
    KeptClients<httplib::Client> clients(To(port));
    for (int i = 0; i < 4; ++i) {
      httplib::Result result =
          clients.Send([](httplib::Client& client) { return client.Get("/"); }, true);
      ASSERT_TRUE(result) << httplib::to_string(result.error());
      EXPECT_EQ(result->body, "ok");
    }
  }
  server.stop();
  thread.join();
  EXPECT_EQ(ports.size(), 1u);
}

// Answers one request of a connection, reads the next one and closes; so twice.
class RudeServer final {
 public:
  RudeServer() {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] {
      for (int i = 0; i < 2; ++i) Serve();
    });
  }
  ~RudeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  int port() const { return port_; }

 private:
  static bool ReadHead(int fd) {
    std::string head;
    for (char byte; head.find("\r\n\r\n") == std::string::npos; head += byte)
      if (recv(fd, &byte, 1, 0) != 1) return false;
    return true;
  }
  void Serve() {
    const int fd = accept(listener_, nullptr, nullptr);
    if (fd < 0) return;
    constexpr char kAnswer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    if (ReadHead(fd) && send(fd, kAnswer, sizeof(kAnswer) - 1, 0) > 0) (void)ReadHead(fd);
    close(fd);
  }
  int listener_ = -1, port_ = 0;
  std::thread thread_;
};

TEST(KeptClients, ARequestOnAConnectionThatWasClosedIsSentAgain) {
  RudeServer server;
  KeptClients<httplib::Client> clients(To(server.port()));
  auto get = [](httplib::Client& client) { return client.Get("/"); };
  ASSERT_TRUE(clients.Send(get, true));
  httplib::Result again = clients.Send(get, true);
  ASSERT_TRUE(again) << httplib::to_string(again.error());
  EXPECT_EQ(again->body, "ok");
}

TEST(KeptClients, AConnectionThatIsIdleForTooLongIsNotUsedAgain) {
  for (const auto longest : {std::chrono::seconds(0), std::chrono::seconds(60)}) {
    RudeServer server;  // it closes a connection after a request, and does not say so
    KeptClients<httplib::Client> clients(To(server.port()), longest);
    auto get = [](httplib::Client& client) { return client.Get("/"); };
    ASSERT_TRUE(clients.Send(get, false));
    EXPECT_EQ(static_cast<bool>(clients.Send(get, false)), longest == std::chrono::seconds(0));
  }
}

TEST(KeptClients, WhatMayNotBeRepeatedIsNot) {
  RudeServer server;
  KeptClients<httplib::Client> clients(To(server.port()));
  auto get = [](httplib::Client& client) { return client.Get("/"); };
  ASSERT_TRUE(clients.Send(get, false));
  EXPECT_FALSE(clients.Send(get, false));
}

}  // namespace
}  // namespace farcall::pool
