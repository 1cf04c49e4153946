// SPDX-License-Identifier: Apache-2.0
#include "transport/handshake.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/transport/link_harness.h"

namespace farcall::test {
namespace {

class HandshakeTest : public testing::Test {
 protected:
  HandshakeTest() {
    listener_ = std::move(*Listen(FreshUrl("inproc://handshake")));
    client_ = std::move(*Dial(listener_->Url(), In(kLong)));
    server_ = std::move(*listener_->Accept(In(kLong)));
  }
  void SendRaw(Channel& channel, HandshakeHeader header, std::span<const std::byte> body = {}) {
    ASSERT_TRUE(SendAll(channel, std::as_bytes(std::span(&header, 1)), In(kLong)).ok());
    ASSERT_TRUE(SendAll(channel, body, In(kLong)).ok());
  }
  Status Receive(Clock::time_point deadline) {
    return GreetAndReceive(*server_, ServerExchange(false, "9"), deadline).status();
  }
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Channel> client_, server_;
};

TEST_F(HandshakeTest, WelcomesAClientThatProvesTheToken) {
  const std::vector<TokenVerifier> known = {TokenKeys("right").verifier()};
  SessionKey key;
  std::thread server([&] {
    const ServerExchange exchange(true, "9");
    Result<ReceivedHello> heard = GreetAndReceive(*server_, exchange, In(kLong));
    ASSERT_TRUE(heard.ok()) << heard.status().message();
    EXPECT_FALSE(heard->AcceptToken(std::vector<TokenVerifier>{TokenKeys("other").verifier()}));
    std::optional<ReceivedHello::Accepted> accepted = heard->AcceptToken(known);
    ASSERT_TRUE(accepted);
    key = accepted->keys.session;
    EXPECT_EQ(heard->hello().program, "train.py");
    Welcome welcome;
    welcome.device_kind = "cpu";
    welcome.lanes = 2;
    ASSERT_TRUE(SendWelcome(*server_, accepted->keys.answer, welcome, In(kLong)).ok());
  });
  Hello hello;
  hello.program = "train.py";
  Result<Welcomed> welcomed =
      ClientHandshake(*client_, hello, ClientCredentials::OfToken("right"), In(kLong));
  server.join();
  ASSERT_TRUE(welcomed.ok()) << welcomed.status().message();
  EXPECT_EQ(welcomed->welcome.device_kind, "cpu");
  EXPECT_EQ(welcomed->welcome.lanes, 2u);
  EXPECT_TRUE(SameBytes(welcomed->key.bytes(), key.bytes()));
}

TEST_F(HandshakeTest, FindsAServerThatKnowsNoToken) {
  std::thread server([&] {
    const ServerExchange exchange(true, "9");
    Result<ReceivedHello> heard = GreetAndReceive(*server_, exchange, In(kLong));
    ASSERT_TRUE(heard.ok());
    ASSERT_TRUE(SendWelcome(*server_, heard->AcceptAnyone().answer, {}, In(kLong)).ok());
  });
  Status status =
      ClientHandshake(*client_, {}, ClientCredentials::OfToken("right"), In(kLong)).status();
  server.join();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_NE(status.message().find("cannot prove"), std::string::npos) << status.message();
}

TEST_F(HandshakeTest, APoolsAnswerIsSealedToo) {
  std::thread pool([&] {
    const ServerExchange exchange(false, "9");
    Result<ReceivedHello> heard = GreetAndReceive(*server_, exchange, In(kLong));
    ASSERT_TRUE(heard.ok());
    ASSERT_TRUE(SendRedirect(*server_, heard->AcceptAnyone().answer,
                             {{"tcp://gpu7:7717"}, "v4.public.x", "c-1"}, In(kLong))
                    .ok());
  });
  Result<Redirect> told = PoolHandshake(*client_, {}, {}, In(kLong));
  pool.join();
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_EQ(told->lease, "v4.public.x");
}

TEST_F(HandshakeTest, PassesTheRefusalsMessageOn) {
  std::thread server([&] {
    const ServerExchange exchange(false, "9");
    ASSERT_TRUE(GreetAndReceive(*server_, exchange, In(kLong)).ok());
    ASSERT_TRUE(
        SendRefuse(*server_, {Code::kQuotaExceeded, "no vGPU is free: 4 of 4 taken"}, In(kLong))
            .ok());
  });
  Status status = ClientHandshake(*client_, {}, {}, In(kLong)).status();
  server.join();
  EXPECT_EQ(status.code(), Code::kQuotaExceeded);
  EXPECT_EQ(status.message(), "no vGPU is free: 4 of 4 taken");
}

TEST_F(HandshakeTest, AsksForATokenBeforeSayingHello) {
  ASSERT_TRUE(SendAll(*server_, ServerExchange(true, "9").greeting(), In(kLong)).ok());
  Status status = ClientHandshake(*client_, {}, {}, In(kLong)).status();
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_NE(status.message().find("FARCALL_TOKEN"), std::string::npos);
}

TEST_F(HandshakeTest, NamesBothWireVersionsOnEitherSide) {
  HandshakeHeader header;
  header.major = kWireMajor + 1;
  header.type = 1;
  const std::string minor = "." + std::to_string(kWireMinor);
  const std::string theirs = std::to_string(kWireMajor + 1) + minor;
  const std::string ours = std::to_string(kWireMajor) + minor;
  SendRaw(*server_, header);
  Status status = ClientHandshake(*client_, {}, {}, In(kLong)).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("server speaks wire " + theirs + ", this client " + ours),
            std::string::npos)
      << status.message();
  header.type = 2;
  SendRaw(*client_, header);
  status = Receive(In(kLong));
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("client speaks wire " + theirs + ", this server " + ours),
            std::string::npos)
      << status.message();
}

TEST_F(HandshakeTest, SaysThatNoFarcallServerIsThere) {
  const char* banner = "SSH-2.0-OpenSSH_9.2p1 Debian\r\n";
  ASSERT_TRUE(SendAll(*server_, std::as_bytes(std::span(banner, strlen(banner))), In(kLong)).ok());
  Status status = ClientHandshake(*client_, {}, {}, In(kLong)).status();
  EXPECT_EQ(status.code(), Code::kMalformed);
  EXPECT_NE(status.message().find("no Farcall server there"), std::string::npos)
      << status.message();
}

TEST_F(HandshakeTest, RefusesATooLargeHelloBeforeReadingIt) {
  HandshakeHeader header;
  header.type = 2;
  header.bytes = kMaxHelloBytes + 1;
  SendRaw(*client_, header);
  Status status = Receive(In(kLong));
  EXPECT_EQ(status.code(), Code::kMalformed);
  EXPECT_NE(status.message().find(std::to_string(kMaxHelloBytes + 1)), std::string::npos)
      << status.message();
}

TEST_F(HandshakeTest, RefusesAMessageOutOfTurn) {
  HandshakeHeader header;
  header.type = 3;
  SendRaw(*client_, header);
  EXPECT_EQ(Receive(In(kLong)).code(), Code::kMalformed);
}

TEST_F(HandshakeTest, TimesOutOnASilentPeer) {
  EXPECT_EQ(Receive(In(5)).code(), Code::kTimeout);
  EXPECT_EQ(ClientHandshake(*client_, {}, {}, In(5)).status().code(), Code::kTimeout);
}

TEST(ForwardedVariableTest, AllowsOnlyTheList) {
  EXPECT_TRUE(IsForwardedVariable("CUDA_MODULE_LOADING"));
  EXPECT_FALSE(IsForwardedVariable("LD_PRELOAD"));
  EXPECT_FALSE(IsForwardedVariable("CUDA_VISIBLE_DEVICES"));
  for (std::string_view name : ForwardedVariables()) EXPECT_TRUE(IsForwardedVariable(name));
}

}  // namespace
}  // namespace farcall::test
