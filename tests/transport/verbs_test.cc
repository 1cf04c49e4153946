// SPDX-License-Identifier: Apache-2.0
// What is verbs://'s alone: how bytes travel, which card is taken, hostile peers, failures of
// cards. On the fake card, and on this machine's where it has one.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/transport/link_harness.h"
#include "tests/transport/verbs_listener.h"
#include "transport/fabric/fabric_lingerer.h"
#include "transport/verbs/verbs_channel.h"
#include "transport/verbs/verbs_exchange.h"

namespace farcall::test {
namespace {

TEST(VerbsTest, IsHere) {
  const Status here = VerbsDeviceOfProcess().status();
  if (!here.ok()) GTEST_SKIP() << "no rows of a real card: " << here.message();
}

TEST(VerbsChoiceTest, NamesADeviceAPortAndAGid) {
  EXPECT_TRUE(ParseVerbsChoice("")->device.empty());
  EXPECT_TRUE(ParseVerbsChoice("auto")->device.empty());
  EXPECT_EQ(ParseVerbsChoice("mlx5_0")->device, "mlx5_0");
  EXPECT_EQ(ParseVerbsChoice("mlx5_0:2")->port, 2);
  const VerbsChoice whole = *ParseVerbsChoice("mlx5_0:2:3");
  EXPECT_EQ(whole.port, 2);
  EXPECT_EQ(whole.gid, 3);
  for (const char* wrong : {":1", "mlx5_0:", "mlx5_0:0", "mlx5_0:256", "mlx5_0:x",
                            "mlx5_0:1:", "mlx5_0:1:-1", "mlx5_0:1:2:3", "a b", "a/b"}) {
    const Status status = ParseVerbsChoice(wrong).status();
    EXPECT_EQ(status.code(), Code::kInvalid) << wrong;
    EXPECT_NE(status.message().find("DEVICE[:PORT[:GID]]"), std::string::npos);
  }
}

VerbsHello Sound(VerbsRole role) {
  VerbsHello hello;
  hello.role = role;
  hello.mtu = 3;
  hello.queue_pair = 17;
  hello.reads = 4;
  hello.is_ethernet = 1;
  hello.window_bytes = kVerbsLogWindowBytes;
  hello.slots = 16;
  hello.slot_bytes = 4096;
  hello.sends = {1u << 20, 7, 0};
  hello.receives = {1u << 21, 8, 0};
  return hello;
}

TEST(VerbsExchangeTest, APacketSurvives) {
  const std::vector<std::byte> packet = Encode(Sound(VerbsRole::kOffers));
  Result<VerbsHello> got = DecodeVerbsHello(packet, VerbsRole::kReaches);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->sends.key, 7u);
  EXPECT_EQ(DecodeVerbsHello(packet, VerbsRole::kOffers).status().code(), Code::kMalformed)
      << "two clients";
  for (size_t bytes = 0; bytes < packet.size(); ++bytes)
    EXPECT_FALSE(DecodeVerbsHello(std::span(packet).first(bytes), VerbsRole::kReaches).ok());
}

TEST(VerbsExchangeTest, WrongPacketsAreNamed) {
  const auto with = [](auto change) {
    VerbsHello hello = Sound(VerbsRole::kOffers);
    change(hello);
    return DecodeVerbsHello(Encode(hello), VerbsRole::kReaches).status().code();
  };
  EXPECT_EQ(with([](auto& hello) { hello.magic = 1; }), Code::kMalformed);
  EXPECT_EQ(with([](auto& hello) { hello.version = 2; }), Code::kUnsupported);
  EXPECT_EQ(with([](auto& hello) { hello.mtu = 0; }), Code::kMalformed);
  EXPECT_EQ(with([](auto& hello) { hello.mtu = 6; }), Code::kMalformed);
  EXPECT_EQ(with([](auto& hello) { hello.queue_pair = 1u << 24; }), Code::kMalformed);
  EXPECT_EQ(with([](auto& hello) { hello.first_packet = ~0u; }), Code::kMalformed);
  EXPECT_EQ(with([](auto& hello) { hello.reads = 0; }), Code::kMalformed);
  for (const uint32_t bytes : {0u, 1u, 65535u, 3u << 16, 1u << 25, ~0u})
    EXPECT_EQ(with([&](auto& hello) { hello.window_bytes = bytes; }), Code::kMalformed);
  for (const uint32_t slots : {0u, 7u, 1025u, ~0u})
    EXPECT_EQ(with([&](auto& hello) { hello.slots = slots; }), Code::kMalformed);
  for (const uint32_t bytes : {0u, 31u, (64u << 10) + 1, ~0u})
    EXPECT_EQ(with([&](auto& hello) { hello.slot_bytes = bytes; }), Code::kMalformed);
  EXPECT_EQ(with([](auto& hello) { hello.sends.address = 0; }), Code::kMalformed);
  EXPECT_EQ(with([](auto& hello) { hello.receives.address = ~0ull; }), Code::kMalformed);
}

// Functions that a test puts in place of the card's, which they may call.
VerbsApi g_real;
std::atomic<int> g_left{0};
std::atomic<bool> g_is_on{false};

class VerbsCardTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_NE(VerbsDeviceFor(GetParam()), nullptr);
    g_real = VerbsTableOf(GetParam());
    api_ = g_real;
    g_is_on = false;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_.data()), 0);
  }
  // Ends of closed channels go before their device does.
  void TearDown() override {
    client_.reset();
    server_.reset();
    FabricLingerer::OfProcess().DropAll();
  }
  // A device by api_, as it is now.
  VerbsDevice& Faulty() {
    Result<std::unique_ptr<VerbsDevice>> opened = VerbsDevice::Open(api_, {});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    faulty_ = std::move(*opened);
    return *faulty_;
  }
  VerbsDevice& Device() { return *VerbsDeviceFor(GetParam()); }
  std::unique_ptr<FabricConnection> End(int fd, VerbsDevice& device, VerbsRole role,
                                        VerbsUse use = VerbsUse::kLog) {
    Result<FabricEndPointer> end = MakeVerbsEnd(device, role, use);
    EXPECT_TRUE(end.ok()) << end.status().message();
    return end.ok() ? MakeFabricChannel(AdoptSocket(fd), std::move(*end)) : nullptr;
  }
  void Connect(VerbsDevice& client, VerbsDevice& server, VerbsUse use = VerbsUse::kLog) {
    client_ = End(fds_[0], client, VerbsRole::kOffers, use);
    server_ = End(fds_[1], server, VerbsRole::kReaches, use);
    ASSERT_TRUE(client_->AwaitPeer(In(kLong)).ok());
    ASSERT_TRUE(server_->AwaitPeer(In(kLong)).ok());
  }
  // A server's end, and what its client would be by a packet alone.
  Status ServerOf(const VerbsHello& hello) {
    server_ = End(fds_[1], Device(), VerbsRole::kReaches);
    const std::vector<std::byte> packet = Encode(hello);
    EXPECT_EQ(send(fds_[0], packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
    return server_->AwaitPeer(In(200));
  }
  static Status FirstWord(Channel& channel) {
    std::byte byte;
    return ReceiveAll(channel, {&byte, 1}, In(kLong));
  }
  static void Carry(Channel& from, Channel& to, size_t bytes) {
    const std::vector<std::byte> pattern = Pattern(bytes, 3);
    std::vector<std::byte> got(bytes);
    std::thread sender([&] { EXPECT_TRUE(SendAll(from, pattern, In(kLong)).ok()); });
    EXPECT_TRUE(ReceiveAll(to, got, In(kLong)).ok());
    sender.join();
    EXPECT_EQ(pattern, got);
  }
  // Both directions at once, until one fails; answers how.
  Status CarryUntilItFails() {
    std::vector<std::byte> bytes(64u << 20);
    Status sent, got;
    std::thread sender([&] { sent = SendAll(*client_, bytes, In(kLong)); });
    std::vector<std::byte> into(bytes.size());
    got = ReceiveAll(*server_, into, In(kLong));
    server_->Close();
    sender.join();
    return got.ok() ? sent : got;
  }

  std::array<int, 2> fds_;
  VerbsApi api_;
  std::unique_ptr<VerbsDevice> faulty_;  // outlives the channels
  std::unique_ptr<FabricConnection> client_, server_;
};

// A closed end, from whose memory the peer has still to read, is there until it has.
TEST_P(VerbsCardTest, AClosedEndStaysUntilItIsRead) {
  FabricLingerer::OfProcess().DropAll();  // of other tests
  Connect(Device(), Device(), VerbsUse::kLane);
  const std::vector<std::byte> pattern = Pattern(100'000, 3);
  ASSERT_TRUE(SendAll(*client_, pattern, In(kLong)).ok());
  client_.reset();
  EXPECT_EQ(FabricLingerer::OfProcess().count(), 1u);
  std::vector<std::byte> got(pattern.size());
  ASSERT_TRUE(ReceiveAll(*server_, got, In(kLong)).ok());
  EXPECT_EQ(pattern, got);
  EXPECT_EQ(FirstWord(*server_).code(), Code::kDisconnected);
  while (FabricLingerer::OfProcess().count() != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Counters of the table's: what crosses how.
TEST_P(VerbsCardTest, BulkIsReadAndWrittenAndNoneOfItIsSent) {
  VerbsDevice& device = Faulty();
  const VerbsCounts& counts = device.counts();
  Connect(device, device, VerbsUse::kLane);
  const size_t bytes = (GetParam() == "fake" ? 64u : 8u) << 20;
  Carry(*client_, *server_, bytes);
  EXPECT_EQ(counts.read_bytes, bytes);
  EXPECT_EQ(counts.write_bytes, 0u);
  Carry(*server_, *client_, bytes);
  EXPECT_EQ(counts.read_bytes, bytes);
  EXPECT_EQ(counts.write_bytes, bytes);
  EXPECT_EQ(counts.send_bytes, 0u) << "messages tell of bytes and carry none";
}

TEST_P(VerbsCardTest, SmallFramesOfALogAreSentAtOnce) {
  VerbsDevice& device = Faulty();
  const VerbsCounts& counts = device.counts();
  Connect(device, device);
  for (const size_t bytes : {1u, 16u, 4000u, 16000u}) {
    Carry(*client_, *server_, bytes);
    Carry(*server_, *client_, bytes);
  }
  EXPECT_EQ(counts.send_bytes, 2 * (1 + 16 + 4000 + 16000));
  EXPECT_GE(counts.inline_sends, 4u);
  EXPECT_EQ(counts.reads + counts.writes, 0u);
}

TEST_P(VerbsCardTest, WhatFailsAtTheStartIsOneLineWithTheRemedy) {
  const auto open = [&](const VerbsChoice& choice) {
    return VerbsDevice::Open(api_, choice).status();
  };
  const auto says = [](const Status& status, const char* words) {
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  says(open({"nowhere0", 0, -1}), "no RDMA device nowhere0 is here; there are: ");
  says(open({"", 200, -1}), "has no port 200");
  says(open({"", 0, 200}), "GID 200 is empty");
  api_.query_port = [](ibv_context*, uint8_t, ibv_port_attr*) { return 0; };  // state 0: none
  says(open({}), "has no active port");
  api_ = g_real;
  api_.get_device_list = [](int* count) -> ibv_device** {
    *count = 0;
    errno = ENOSYS;
    return nullptr;
  };
  says(open({}), "no RDMA device is here");
  api_ = g_real;
  api_.open_device = [](ibv_device*) -> ibv_context* {
    errno = EACCES;
    return nullptr;
  };
  says(open({}), "/dev/infiniband/uverbs");
  const auto make = [&] {
    return MakeVerbsEnd(Faulty(), VerbsRole::kOffers, VerbsUse::kLog).status();
  };
  api_ = g_real;
  api_.reg_mr = [](ibv_pd*, void*, size_t, int) -> ibv_mr* {
    errno = ENOMEM;
    return nullptr;
  };
  says(make(), "ulimit -l");
  api_ = g_real;
  api_.create_cq = [](ibv_context*, int, void*, ibv_comp_channel*, int) -> ibv_cq* {
    errno = ENOMEM;
    return nullptr;
  };
  says(make(), "no completion queue");
  api_ = g_real;
  api_.create_qp = [](ibv_pd*, ibv_qp_init_attr*) -> ibv_qp* {
    errno = ENOMEM;
    return nullptr;
  };
  says(make(), "no queue pair");
}

TEST_P(VerbsCardTest, APeerThatSendsNoAddressIsMalformed) {
  server_ = End(fds_[1], Device(), VerbsRole::kReaches);
  const std::vector<std::byte> noise = Pattern(4096, 1);
  ASSERT_EQ(send(fds_[0], noise.data(), noise.size(), 0), static_cast<ssize_t>(noise.size()));
  EXPECT_EQ(FirstWord(*server_).code(), Code::kMalformed);
}

TEST_P(VerbsCardTest, APeerThatDoesNotSayThatItIsReadyIsMalformed) {
  client_ = End(fds_[0], Device(), VerbsRole::kOffers);
  std::vector<std::byte> packet = Encode(Sound(VerbsRole::kReaches));
  packet.resize(packet.size() + 4, std::byte{1});
  VerbsHello real;
  ASSERT_EQ(recv(fds_[1], &real, sizeof(real), MSG_WAITALL), static_cast<ssize_t>(sizeof(real)));
  std::memcpy(packet.data() + offsetof(VerbsHello, gid), real.gid.data(), real.gid.size());
  ASSERT_EQ(send(fds_[1], packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
  EXPECT_EQ(FirstWord(*client_).code(), Code::kMalformed);
}

// The client tells of memory that is not registered, or that has another key.
TEST_P(VerbsCardTest, WrongKeysAndAddressesEndOneConnection) {
  for (const bool is_key : {true, false}) {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_.data()), 0);
    std::array<int, 2> between;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, between.data()), 0);
    client_ = End(fds_[0], Device(), VerbsRole::kOffers, VerbsUse::kLane);
    server_ = End(between[1], Device(), VerbsRole::kReaches, VerbsUse::kLane);
    VerbsHello hello;
    ASSERT_EQ(recv(fds_[1], &hello, sizeof(hello), MSG_WAITALL),
              static_cast<ssize_t>(sizeof(hello)));
    (is_key ? hello.sends.key : hello.receives.key) ^= 0x5a00;
    hello.sends.address += is_key ? 0 : 4096;
    ASSERT_EQ(send(between[0], &hello, sizeof(hello), 0), static_cast<ssize_t>(sizeof(hello)));
    const auto forward = [](int from, int to) {
      char buffer[256];
      for (ssize_t got; (got = recv(from, buffer, sizeof(buffer), 0)) > 0;)
        (void)!send(to, buffer, static_cast<size_t>(got), MSG_NOSIGNAL);
      shutdown(to, SHUT_WR);
    };
    std::thread up(forward, fds_[1], between[0]), down(forward, between[0], fds_[1]);
    ASSERT_TRUE(client_->AwaitPeer(In(kLong)).ok());
    ASSERT_TRUE(server_->AwaitPeer(In(kLong)).ok());
    std::thread sender([&] {
      const std::vector<std::byte> bytes(4 * kVerbsLaneWindowBytes);
      (void)SendAll(*client_, bytes, In(kLong));
    });
    std::vector<std::byte> into(4 * kVerbsLaneWindowBytes);
    const Status why = ReceiveAll(*server_, into, In(kLong));
    EXPECT_EQ(why.code(), Code::kMalformed);
    EXPECT_NE(why.message().find("the peer's memory is not where it said"), std::string::npos)
        << why.message();
    server_->Close();
    sender.join();
    server_.reset();
    client_.reset();
    up.join();
    down.join();
    for (const int fd : {fds_[1], between[0]}) close(fd);
  }
}

TEST_P(VerbsCardTest, TheSocketsEndIsThePeersDeath) {
  Connect(Device(), Device());
  shutdown(fds_[1], SHUT_RDWR);  // as the kernel does for the killed
  EXPECT_EQ(FirstWord(*client_).code(), Code::kDisconnected);
}

TEST_P(VerbsCardTest, ALostCompletionEndsTheConnection) {
  api_.poll_cq = [](ibv_cq* queue, int count, ibv_wc* found) {
    const int taken = g_real.poll_cq(queue, std::min(count, 1), found);
    return taken > 0 && g_is_on && g_left-- == 0 ? 0 : taken;
  };
  Connect(Device(), Faulty());
  g_left = 20;
  g_is_on = true;
  const Status why = CarryUntilItFails();
  EXPECT_EQ(why.code(), Code::kDisconnected);
  EXPECT_NE(why.message().find("a completion was lost"), std::string::npos) << why.message();
}

TEST_P(VerbsCardTest, ARepeatedCompletionEndsTheConnection) {
  api_.poll_cq = [](ibv_cq* queue, int count, ibv_wc* found) {
    const int taken = g_real.poll_cq(queue, 1, found);
    if (taken > 0 && count > 1 && g_is_on && g_left-- == 0) {
      found[1] = found[0];
      return 2;
    }
    return taken;
  };
  Connect(Device(), Faulty());
  g_left = 20;
  g_is_on = true;
  const Status why = CarryUntilItFails();
  EXPECT_EQ(why.code(), Code::kDisconnected);
  EXPECT_NE(why.message().find("a completion came twice"), std::string::npos) << why.message();
}

TEST_P(VerbsCardTest, ACompletionWithAnErrorEndsTheConnection) {
  api_.poll_cq = [](ibv_cq* queue, int count, ibv_wc* found) {
    const int taken = g_real.poll_cq(queue, count, found);
    if (taken > 0 && g_is_on && g_left-- == 0) found[0].status = IBV_WC_FATAL_ERR;
    return taken;
  };
  Connect(Device(), Faulty());
  g_left = 5;
  g_is_on = true;
  const Status why = CarryUntilItFails();
  EXPECT_EQ(why.code(), Code::kDisconnected);
  EXPECT_NE(why.message().find("the connection has failed"), std::string::npos) << why.message();
}

TEST_P(VerbsCardTest, AnOverrunQueueEndsTheConnection) {
  api_.poll_cq = [](ibv_cq* queue, int count, ibv_wc* found) {
    return g_is_on && g_left-- <= 0 ? -1 : g_real.poll_cq(queue, count, found);
  };
  Connect(Device(), Faulty());
  g_left = 10;
  g_is_on = true;
  const Status why = CarryUntilItFails();
  EXPECT_EQ(why.code(), Code::kDisconnected);
  EXPECT_NE(why.message().find("overrun"), std::string::npos) << why.message();
}

TEST_P(VerbsCardTest, AFullSendQueueEndsTheConnection) {
  api_.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** bad) {
    return g_is_on && g_left-- <= 0 ? ENOMEM : g_real.post_send(pair, request, bad);
  };
  Connect(Device(), Faulty());
  g_left = 10;
  g_is_on = true;
  const Status why = CarryUntilItFails();
  EXPECT_EQ(why.code(), Code::kDisconnected);
  EXPECT_NE(why.message().find("the card takes no request"), std::string::npos) << why.message();
}

// A peer that says it has slots and has none.
TEST_P(VerbsCardTest, APeerWithoutSlotsEndsTheConnection) {
  api_.post_recv = [](ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** bad) {
    return g_is_on ? 0 : g_real.post_recv(pair, request, bad);
  };
  Connect(Faulty(), Device());
  g_is_on = true;
  Status why;
  const std::vector<std::byte> bytes = Pattern(1000, 1);
  std::vector<std::byte> into(bytes.size());
  for (int i = 0; i < 100 && why.ok(); ++i) {
    why = SendAll(*server_, bytes, In(kLong));
    (void)ReceiveAll(*client_, into, In(20));
  }
  EXPECT_EQ(why.code(), Code::kMalformed) << why.message();
}

// The driver tells of completions by no event at all.
TEST_P(VerbsCardTest, LostEventsDelayAndLoseNothing) {
  api_.req_notify_cq = [](ibv_cq*, int) { return 0; };
  VerbsDevice& device = Faulty();
  Connect(device, device);
  Carry(*client_, *server_, 100000);
  Carry(*server_, *client_, 100000);
}

TEST_P(VerbsCardTest, EverySleeperIsWoken) {
  Connect(Device(), Device());
  const int turns = GetParam() == "fake" ? 3000 : 100;
  const auto take = [](Channel& channel) {
    std::byte byte;
    while (*channel.TryReceive({&byte, 1}) == 0) ASSERT_TRUE(channel.WaitReadable(In(kLong)));
  };
  const std::byte byte{1};
  std::thread echo([&] {
    for (int i = 0; i < turns; ++i) {
      take(*server_);
      EXPECT_TRUE(SendAll(*server_, {&byte, 1}, In(kLong)).ok());
    }
  });
  for (int i = 0; i < turns; ++i) {
    EXPECT_TRUE(SendAll(*client_, {&byte, 1}, In(kLong)).ok());
    take(*client_);
  }
  echo.join();
}

TEST_P(VerbsCardTest, AForkedChildTouchesNothingOfIt) {
  Connect(Device(), Device());
  const pid_t child = fork();
  if (child == 0) {
    client_->Abandon();
    server_->Abandon();
    client_.reset();
    server_.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Carry(*client_, *server_, 100000);
  Carry(*server_, *client_, 100000);
}

std::vector<std::string> Cards() {
  std::vector<std::string> cards = {"fake"};
  if (VerbsDeviceFor("card") != nullptr) cards.emplace_back("card");
  return cards;
}
INSTANTIATE_TEST_SUITE_P(Cards, VerbsCardTest, testing::ValuesIn(Cards()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace farcall::test
