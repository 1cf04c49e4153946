// SPDX-License-Identifier: Apache-2.0
// What is ucx://'s alone: the exchange on the socket, hostile peers, failures of UCX itself.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/transport/link_harness.h"
#include "tests/transport/ucx_listener.h"
#include "transport/fabric/stream_window.h"
#include "transport/ucx/ucx_channel.h"
#include "transport/ucx/ucx_exchange.h"

namespace farcall::test {
namespace {

constexpr size_t kWindow = kMinUcxWindowBytes;

TEST(UcxTest, IsHere) {
  Result<const UcxApi*> api = LoadUcx();
  if (!api.ok()) GTEST_SKIP() << "no rows of ucx://: " << api.status().message();
  EXPECT_GE(UcxVersion(**api), "1.13");
}

TEST(StreamWindowTest, PiecesThatLandOutOfOrderAreReadInOrder) {
  StreamWindow window(kWindow);
  ASSERT_TRUE(window.Claim(100, 50).ok());
  ASSERT_TRUE(window.Claim(0, 100).ok());
  window.Land(100);
  EXPECT_EQ(window.arrived(), 0u);
  window.Land(0);
  EXPECT_EQ(window.arrived(), 150u);
  window.Consume(150);
  EXPECT_EQ(window.consumed(), 150u);
  ASSERT_TRUE(window.Claim(150, kWindow - 150).ok());
  ASSERT_TRUE(window.Claim(kWindow, 150).ok()) << "what was read makes room";
}

TEST(StreamWindowTest, WhatAPeerMayNotSendIsMalformed) {
  StreamWindow window(kWindow);
  ASSERT_TRUE(window.Claim(0, 64).ok());
  window.Land(0);
  ASSERT_TRUE(window.Claim(128, 64).ok());
  const struct {
    uint64_t begin, bytes;
  } wrong[] = {{32, 16},         {64, 0},    {127, 2},    {191, 1},           {kWindow, 1},
               {kWindow - 1, 2}, {~0ull, 1}, {64, ~0ull}, {~0ull - 1, ~0ull}, {64, kWindow}};
  for (const auto& [begin, bytes] : wrong)
    EXPECT_EQ(window.Claim(begin, bytes).code(), Code::kMalformed) << begin << " " << bytes;
  window.Consume(64);
  EXPECT_EQ(window.Claim(kWindow - 8, 16).code(), Code::kMalformed) << "across the ring's end";
  window.Land(77);  // nobody's
  EXPECT_EQ(window.arrived(), 64u);
}

TEST(StreamWindowTest, PiecesAreBounded) {
  StreamWindow window(kWindow);
  Status last;
  size_t taken = 0;
  for (uint64_t at = 2; at < kWindow && last.ok(); at += 2, ++taken) last = window.Claim(at, 1);
  EXPECT_EQ(last.code(), Code::kMalformed);
  EXPECT_LE(taken, kWindow / 16 + 1);
}

UcxHello Sound() {
  UcxHello hello;
  hello.window_bytes = kWindow;
  hello.key.fill(7);
  hello.address.assign(100, std::byte{1});
  return hello;
}

TEST(UcxExchangeTest, APacketSurvives) {
  const std::vector<std::byte> packet = Encode(Sound());
  Result<UcxHello> got = DecodeUcxHello(packet);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->window_bytes, kWindow);
  EXPECT_EQ(got->key, Sound().key);
  EXPECT_EQ(got->address, Sound().address);
  for (size_t bytes = 0; bytes < packet.size(); ++bytes)
    EXPECT_FALSE(DecodeUcxHello(std::span(packet).first(bytes)).ok());
}

TEST(UcxExchangeTest, WrongPacketsAreNamed) {
  const auto with = [](auto change) {
    UcxHelloHeader header;
    header.window_bytes = kWindow;
    header.address_bytes = 100;
    change(header);
    return UcxHelloBytes(header).status();
  };
  EXPECT_TRUE(with([](auto&) {}).ok());
  EXPECT_EQ(with([](auto& header) { header.magic = 1; }).code(), Code::kMalformed);
  EXPECT_EQ(with([](auto& header) { header.version = 2; }).code(), Code::kUnsupported);
  for (const uint32_t bytes : {0u, static_cast<uint32_t>(kMaxUcxAddressBytes) + 1, ~0u})
    EXPECT_EQ(with([&](auto& header) { header.address_bytes = bytes; }).code(), Code::kMalformed);
  for (const uint32_t bytes : {0u, 1u, 65535u, 3u << 16, 1u << 25, ~0u})
    EXPECT_EQ(with([&](auto& header) { header.window_bytes = bytes; }).code(), Code::kMalformed);
}

// Two ends over a pair of sockets; `raw`, a peer that is no end at all.
class UcxChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!LoadUcx().ok()) GTEST_SKIP() << "no UCX here";
  }
  std::unique_ptr<FabricConnection> End(int fd, UcxContext* context = nullptr) {
    Result<FabricEndPointer> end =
        MakeUcxEnd(context == nullptr ? *UcxContextFor("tcp") : *context, kWindow);
    EXPECT_TRUE(end.ok()) << end.status().message();
    return end.ok() ? MakeFabricChannel(AdoptSocket(fd), std::move(*end)) : nullptr;
  }
  static std::array<int, 2> Sockets() {
    std::array<int, 2> ends;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    return ends;
  }
  static Status FirstWord(Channel& channel) {
    std::byte byte;
    return ReceiveAll(channel, {&byte, 1}, In(kLong));
  }
};

TEST_F(UcxChannelTest, APeerThatSendsNoAddressIsMalformed) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> end = End(fds[0]);
  const std::vector<std::byte> noise = Pattern(4096, 1);
  ASSERT_EQ(send(fds[1], noise.data(), noise.size(), 0), static_cast<ssize_t>(noise.size()));
  EXPECT_EQ(FirstWord(*end).code(), Code::kMalformed);
  EXPECT_EQ(end->AwaitPeer(In(kLong)).code(), Code::kMalformed);
  close(fds[1]);
}

TEST_F(UcxChannelTest, APeerThatLeavesBeforeItsAddressIsGone) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> end = End(fds[0]);
  const std::vector<std::byte> packet = Encode(Sound());
  ASSERT_EQ(send(fds[1], packet.data(), 40, 0), 40);
  close(fds[1]);
  EXPECT_EQ(FirstWord(*end).code(), Code::kDisconnected);
}

TEST_F(UcxChannelTest, APeerThatSaysNothingIsATimeout) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> end = End(fds[0]);
  EXPECT_EQ(end->AwaitPeer(In(20)).code(), Code::kTimeout);
  close(fds[1]);
}

TEST_F(UcxChannelTest, AnotherReleaseOfUcxIsNamed) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> end = End(fds[0]);
  UcxHello hello = Sound();
  hello.release = 99 * 256 + 7;
  const std::vector<std::byte> packet = Encode(hello);
  ASSERT_EQ(send(fds[1], packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
  const Status why = end->AwaitPeer(In(kLong));
  EXPECT_EQ(why.code(), Code::kUnsupported);
  EXPECT_NE(why.message().find("the peer has UCX 99.7"), std::string::npos) << why.message();
  close(fds[1]);
}

TEST_F(UcxChannelTest, TheSocketsEndIsThePeersDeath) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> here = End(fds[0]), there = End(fds[1]);
  ASSERT_TRUE(here->AwaitPeer(In(kLong)).ok());
  ASSERT_TRUE(there->AwaitPeer(In(kLong)).ok());
  std::thread killer([&] { shutdown(fds[1], SHUT_RDWR); });  // as the kernel does for the killed
  EXPECT_EQ(FirstWord(*here).code(), Code::kDisconnected);
  killer.join();
}

TEST_F(UcxChannelTest, MoreOnTheSocketThanAnEndIsMalformed) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> here = End(fds[0]), there = End(fds[1]);
  ASSERT_TRUE(here->AwaitPeer(In(kLong)).ok());
  ASSERT_TRUE(there->AwaitPeer(In(kLong)).ok());
  const std::vector<std::byte> noise = Pattern(100, 1);
  ASSERT_EQ(send(fds[1], noise.data(), noise.size(), 0), static_cast<ssize_t>(noise.size()));
  EXPECT_EQ(FirstWord(*here).code(), Code::kMalformed);
}

TEST_F(UcxChannelTest, EverySleeperIsWoken) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> here = End(fds[0]), there = End(fds[1]);
  constexpr int kTurns = 3000;
  const auto take = [](Channel& channel) {
    std::byte byte;
    while (*channel.TryReceive({&byte, 1}) == 0) ASSERT_TRUE(channel.WaitReadable(In(kLong)));
  };
  const std::byte byte{1};
  std::thread echo([&] {
    for (int i = 0; i < kTurns; ++i) {
      take(*there);
      EXPECT_TRUE(SendAll(*there, {&byte, 1}, In(kLong)).ok());
    }
  });
  for (int i = 0; i < kTurns; ++i) {
    EXPECT_TRUE(SendAll(*here, {&byte, 1}, In(kLong)).ok());
    take(*here);
  }
  echo.join();
}

// A reader that sleeps while the sender of the same end does UCX's work for both.
TEST_F(UcxChannelTest, AReaderIsWokenByWhatTheSenderFinds) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> here = End(fds[0]), there = End(fds[1]);
  const std::vector<std::byte> bytes = Pattern(4u << 20, 5);
  std::vector<std::byte> got_here(bytes.size()), got_there(bytes.size());
  std::thread a([&] { EXPECT_TRUE(SendAll(*here, bytes, In(kLong)).ok()); });
  std::thread b([&] { EXPECT_TRUE(SendAll(*there, bytes, In(kLong)).ok()); });
  std::thread c([&] { EXPECT_TRUE(ReceiveAll(*there, got_there, In(kLong)).ok()); });
  EXPECT_TRUE(ReceiveAll(*here, got_here, In(kLong)).ok());
  a.join();
  b.join();
  c.join();
  EXPECT_EQ(bytes, got_here);
  EXPECT_EQ(bytes, got_there);
}

TEST_F(UcxChannelTest, AForkedChildTouchesNothingOfIt) {
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> here = End(fds[0]), there = End(fds[1]);
  ASSERT_TRUE(UcxContext::OfProcess().ok());
  ASSERT_TRUE(here->AwaitPeer(In(kLong)).ok());
  const pid_t child = fork();
  if (child == 0) {
    const bool is_refused = UcxContext::OfProcess().status().code() == Code::kUnavailable;
    here->Abandon();
    there->Abandon();
    here.reset();
    there.reset();
    _exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const std::vector<std::byte> bytes = Pattern(100000, 1);
  std::vector<std::byte> got(bytes.size());
  std::thread sender([&] { EXPECT_TRUE(SendAll(*here, bytes, In(kLong)).ok()); });
  EXPECT_TRUE(ReceiveAll(*there, got, In(kLong)).ok());
  sender.join();
  EXPECT_EQ(bytes, got);
}

// UCX's own functions but for those that a test replaces.
UcxApi g_real, g_faulty;
std::atomic<int> g_sends_left{0};

UcxApi& Faulty() {
  g_real = **LoadUcx();
  g_faulty = g_real;
  return g_faulty;
}

TEST_F(UcxChannelTest, WhatFailsAtTheStartIsOneLine) {
  UcxApi& api = Faulty();
  api.init = [](unsigned, unsigned, const ucx::ContextParams*, const void*, ucx::Context*) {
    return ucx::StatusCode{-13};
  };
  EXPECT_NE(UcxContext::Make(api).status().message().find("does not start"), std::string::npos);
  api.init = g_real.init;
  std::unique_ptr<UcxContext> context = std::move(*UcxContext::Make(api, {{"TLS", "tcp"}}));
  api.worker_create = [](ucx::Context, const ucx::WorkerParams*, ucx::Worker*) {
    return ucx::StatusCode{-4};
  };
  EXPECT_EQ(MakeUcxEnd(*context, kWindow).status().code(), Code::kUnavailable);
  api.worker_create = g_real.worker_create;
  api.event_descriptor = [](ucx::Worker, int*) { return ucx::StatusCode{-22}; };
  EXPECT_EQ(MakeUcxEnd(*context, kWindow).status().code(), Code::kUnavailable);
  api.event_descriptor = g_real.event_descriptor;
  api.set_handler = [](ucx::Worker, const ucx::HandlerParams*) { return ucx::StatusCode{-22}; };
  EXPECT_EQ(MakeUcxEnd(*context, kWindow).status().code(), Code::kUnavailable);
}

TEST_F(UcxChannelTest, AnEndpointThatIsRefusedEndsTheConnection) {
  UcxApi& api = Faulty();
  api.endpoint_create = [](ucx::Worker, const ucx::EndpointParams*, ucx::Endpoint*) {
    return ucx::StatusCode{-6};
  };
  std::unique_ptr<UcxContext> context = std::move(*UcxContext::Make(api, {{"TLS", "tcp"}}));
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> here = End(fds[0], context.get()), there = End(fds[1]);
  const Status why = here->AwaitPeer(In(kLong));
  EXPECT_EQ(why.code(), Code::kUnavailable);
  EXPECT_NE(why.message().find("UCX_TLS"), std::string::npos) << why.message();
  here->Close();
  EXPECT_FALSE(FirstWord(*there).ok());
  there.reset();  // first: it may still be connecting (docs/guide/ucx.md)
}

TEST_F(UcxChannelTest, ASendThatFailsEndsTheConnection) {
  UcxApi& api = Faulty();
  api.send = [](ucx::Endpoint endpoint, unsigned id, const void* header, size_t header_bytes,
                const void* data, size_t bytes, const ucx::RequestParams* params) -> ucx::Request {
    if (g_sends_left-- > 0)
      return g_real.send(endpoint, id, header, header_bytes, data, bytes, params);
    return reinterpret_cast<ucx::Request>(intptr_t{-80});
  };
  g_sends_left = 100;
  std::unique_ptr<UcxContext> context = std::move(*UcxContext::Make(api, {{"TLS", "tcp"}}));
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> here = End(fds[0], context.get()), there = End(fds[1]);
  ASSERT_TRUE(here->AwaitPeer(In(kLong)).ok());
  ASSERT_TRUE(there->AwaitPeer(In(kLong)).ok());
  g_sends_left = 2;
  std::vector<std::byte> bytes(10u << 20);
  const Status why = SendAll(*here, bytes, In(kLong));
  EXPECT_EQ(why.code(), Code::kDisconnected);
  EXPECT_NE(why.message().find("ucx: send"), std::string::npos) << why.message();
  here.reset();
  there.reset();
}

// A completion that never comes: its bytes stay UCX's, the connection ends all the same.
TEST_F(UcxChannelTest, MemoryOfALostCompletionIsNotReused) {
  UcxApi& api = Faulty();
  api.send = [](ucx::Endpoint endpoint, unsigned id, const void* header, size_t header_bytes,
                const void* data, size_t bytes, const ucx::RequestParams* params) -> ucx::Request {
    static int lost = 0;
    return g_sends_left-- > 0 ? g_real.send(endpoint, id, header, header_bytes, data, bytes, params)
                              : &lost;
  };
  g_sends_left = 100;
  std::unique_ptr<UcxContext> context = std::move(*UcxContext::Make(api, {{"TLS", "tcp"}}));
  const std::array<int, 2> fds = Sockets();
  std::unique_ptr<FabricConnection> here = End(fds[0], context.get()), there = End(fds[1]);
  ASSERT_TRUE(here->AwaitPeer(In(kLong)).ok());
  ASSERT_TRUE(there->AwaitPeer(In(kLong)).ok());
  g_sends_left = 0;
  std::vector<std::byte> bytes(4 * kWindow);
  size_t total = 0;
  for (;;) {
    const std::span<const std::byte> part(bytes);
    Result<size_t> sent = here->TrySend({&part, 1});
    ASSERT_TRUE(sent.ok());
    total += *sent;
    if (*sent == 0) break;
  }
  EXPECT_EQ(total, kWindow) << "no byte of the ring is written twice";
  here.reset();
  static UcxContext* left_behind;  // with its worker, which a checker for leaks finds from here
  left_behind = context.release();
  EXPECT_NE(left_behind, nullptr);
}

}  // namespace
}  // namespace farcall::test
