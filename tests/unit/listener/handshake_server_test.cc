// SPDX-License-Identifier: Apache-2.0
#include "listener/handshake_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <thread>

#include "transport/handshake.h"

namespace farcall {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Clock::time_point Soon() {
  return Clock::now() + seconds(20);  // only ends a test that has failed
}

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// A server that answers every HELLO with a refusal of its client's name.
class HandshakeServerTest : public testing::Test {
 protected:
  void Open(const HandshakeServer::Bounds& bounds, const char* url = "tcp://127.0.0.1:0") {
    server_ = std::make_unique<HandshakeServer>(
        false,
        [this](std::unique_ptr<Channel> channel, const ReceivedHello& heard, const Listener&) {
          if (admitting_) admitting_();
          (void)SendRefuse(*channel, {Code::kRefused, heard.hello().program}, Clock::now());
        },
        bounds);
    Result<std::unique_ptr<Listener>> listener = Listen(url);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    url_ = (*listener)->Url();
    server_->Listen(std::move(*listener));
    ASSERT_TRUE(server_->Start().ok());
  }
  std::unique_ptr<Channel> Connect() {
    Result<std::unique_ptr<Channel>> channel = Dial(url_, Soon());
    EXPECT_TRUE(channel.ok()) << channel.status().message();
    return std::move(*channel);
  }
  Status Shake(Channel& channel, const std::string& program) {
    Hello hello;
    hello.program = program;
    return ClientHandshake(channel, hello, {}, Soon()).status();
  }
  bool GetsIn(const std::string& name) { return Shake(*Connect(), name).message() == name; }
  // It has been greeted, and so is in the table.
  std::unique_ptr<Channel> Silent() {
    std::unique_ptr<Channel> channel = Connect();
    std::array<std::byte, sizeof(HandshakeHeader)> header;
    EXPECT_TRUE(ReceiveAll(*channel, header, Soon()).ok());
    return channel;
  }
  static bool IsClosed(Channel& channel) {
    std::array<std::byte, 4096> rest;
    Result<size_t> got = channel.TryReceive(rest);
    while (got.ok() && *got != 0) got = channel.TryReceive(rest);
    return !got.ok();
  }
  size_t StillOpen(const std::deque<std::unique_ptr<Channel>>& channels) {
    size_t open = 0;
    for (const auto& channel : channels) open += IsClosed(*channel) ? 0 : 1;
    return open;
  }

  std::function<void()> admitting_;
  std::unique_ptr<HandshakeServer> server_;
  std::string url_;
};

TEST_F(HandshakeServerTest, AClientIsHeardOnEveryTransport) {
  for (const char* url : {"tcp://127.0.0.1:0", "tcp://[::1]:0", "inproc://listener"}) {
    Open({}, url);
    EXPECT_TRUE(GetsIn("one")) << url;
    EXPECT_TRUE(GetsIn("two")) << url;
    server_.reset();
  }
}

TEST_F(HandshakeServerTest, ManyWaitAndAClientGetsInAllTheSame) {
  Open({.waiting = 64, .judges = 2});
  std::deque<std::unique_ptr<Channel>> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(Silent());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(GetsIn("honest"));
  EXPECT_LE(StillOpen(silent), 64u);
  EXPECT_GE(StillOpen(silent), 30u);  // one gives way to one
}

TEST_F(HandshakeServerTest, AHelloThatDoesNotEndIsWaitedForOnceOnly) {
  Open({.waiting = 64, .judges = 1, .patience = milliseconds(300)});
  std::unique_ptr<Channel> half = Silent();
  std::vector<std::byte> begun = *MakePacket(HandshakeType::kHello, std::vector<std::byte>(60'000));
  begun.resize(5000);
  ASSERT_TRUE(SendAll(*half, begun, Soon()).ok());
  while (!IsClosed(*half)) {
    const std::span<const std::byte> one = std::span(begun).first(1);
    (void)half->TrySend({&one, 1});  // another byte changes nothing
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(GetsIn("honest"));
}

TEST_F(HandshakeServerTest, LargeHellosOfManyAreBoundedByTheirBytes) {
  Open({.waiting = 64, .judges = 1});
  std::vector<std::byte> most = *MakePacket(HandshakeType::kHello, std::vector<std::byte>(60'000));
  most.pop_back();
  std::deque<std::unique_ptr<Channel>> half;
  for (int i = 0; i < 40; ++i) {
    half.push_back(Silent());
    (void)SendAll(*half.back(), most, Soon());
  }
  EXPECT_TRUE(GetsIn("honest"));
  EXPECT_LE(StillOpen(half), 64u / 15);
}

TEST_F(HandshakeServerTest, GarbageIsClosedAndTheDescriptorsComeBack) {
  Open({});
  // Before any connection: an admission lends descriptors of the reserve for a while.
  const size_t before = OpenDescriptors();
  EXPECT_TRUE(GetsIn("honest"));
  std::vector<std::byte> sealed = *MakePacket(HandshakeType::kHello, std::vector<std::byte>(200));
  std::vector<std::byte> text(100, std::byte{'G'});
  for (const std::vector<std::byte>& bytes : {sealed, text}) {
    std::unique_ptr<Channel> channel = Silent();
    ASSERT_TRUE(SendAll(*channel, bytes, Soon()).ok());
    while (!IsClosed(*channel)) (void)channel->WaitReadable(Soon());
  }
  EXPECT_TRUE(GetsIn("honest"));
  while (OpenDescriptors() > before) std::this_thread::sleep_for(milliseconds(1));
}

TEST_F(HandshakeServerTest, AFullQueueOfOneAddressTakesTheNextOne) {
  std::mutex gate;
  gate.lock();
  admitting_ = [&] { std::lock_guard pass(gate); };
  Open({.ready = 8, .judges = 1});
  std::vector<std::thread> clients;
  std::atomic<int> heard = 0, dropped = 0;
  for (int i = 0; i < 40; ++i)
    clients.emplace_back([&] {
      std::unique_ptr<Channel> channel = Connect();
      ++(Shake(*channel, "one").message() == "one" ? heard : dropped);
    });
  while (dropped < 40 - 8 - 1) std::this_thread::sleep_for(milliseconds(1));
  gate.unlock();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(heard, 8 + 1);
}

TEST_F(HandshakeServerTest, WithoutDescriptorsThoseOfTheReserveAreUsed) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  Open({.judges = 1});
  // A process that has used up all it may have: what is dialled here is one of them.
  std::vector<int> used;
  const rlimit low{OpenDescriptors() + 40, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  while (true) {
    const int fd = dup(STDERR_FILENO);
    if (fd < 0) break;
    used.push_back(fd);
  }
  for (int i = 0; i < 20; ++i) {
    close(used.back());  // the client's own
    used.pop_back();
    std::unique_ptr<Channel> channel = Connect();
    EXPECT_EQ(Shake(*channel, "honest").message(), "honest");
    channel.reset();
    if (const int fd = dup(STDERR_FILENO); fd >= 0) used.push_back(fd);
  }
  for (int fd : used) close(fd);
  setrlimit(RLIMIT_NOFILE, &old);
}

TEST_F(HandshakeServerTest, AClientOfAnotherMajorReadsWhyWhateverItStillSends) {
  Open({});
  std::unique_ptr<Channel> channel = Silent();
  std::vector<std::byte> hello = *MakePacket(HandshakeType::kHello, std::vector<std::byte>(50'000));
  HandshakeHeader header;
  std::memcpy(&header, hello.data(), sizeof(header));
  header.major = kWireMajor + 1;
  std::memcpy(hello.data(), &header, sizeof(header));
  ASSERT_TRUE(SendAll(*channel, hello, Soon()).ok());
  std::vector<std::byte> answer(4096);
  std::string text;
  while (text.find("install the same release") == std::string::npos) {
    ASSERT_TRUE(channel->WaitReadable(Soon()));
    Result<size_t> got = channel->TryReceive(answer);
    ASSERT_TRUE(got.ok()) << got.status().message();
    text.append(reinterpret_cast<const char*>(answer.data()), *got);
  }
}

TEST_F(HandshakeServerTest, ItStopsWithConnectionsInEveryState) {
  Open({.judges = 2});
  std::deque<std::unique_ptr<Channel>> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(Silent());
  EXPECT_TRUE(GetsIn("honest"));
  server_->Stop();
  EXPECT_EQ(StillOpen(silent), 0u);
}

}  // namespace
}  // namespace farcall
