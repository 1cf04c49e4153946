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
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Channel> client_, server_;
};

TEST_F(HandshakeTest, WelcomesAClientThatProvesTheToken) {
  const std::vector<uint8_t> key(32, 7);
  Greeting greeting;
  greeting.needs_token = true;
  RandomBytes(greeting.nonce);
  std::thread server([&] {
    ASSERT_TRUE(SendGreeting(*server_, greeting, In(kLong)).ok());
    Result<Hello> hello = ReadHello(*server_, In(kLong));
    ASSERT_TRUE(hello.ok()) << hello.status().message();
    EXPECT_TRUE(SameBytes(hello->proof, HelloProof(key, greeting.nonce, *hello)));
    const std::vector<uint8_t> other(32, 8);
    EXPECT_FALSE(SameBytes(hello->proof, HelloProof(other, greeting.nonce, *hello)));
    EXPECT_EQ(hello->program, "train.py");
    Welcome welcome;
    welcome.device_kind = "cpu";
    welcome.lanes = 2;
    ASSERT_TRUE(SendWelcome(*server_, welcome, In(kLong)).ok());
  });
  Hello hello;
  hello.program = "train.py";
  Result<Welcome> welcome = ClientHandshake(*client_, hello, key, In(kLong));
  server.join();
  ASSERT_TRUE(welcome.ok()) << welcome.status().message();
  EXPECT_EQ(welcome->device_kind, "cpu");
  EXPECT_EQ(welcome->lanes, 2u);
}

TEST_F(HandshakeTest, PassesTheRefusalsMessageOn) {
  std::thread server([&] {
    ASSERT_TRUE(SendGreeting(*server_, {}, In(kLong)).ok());
    ASSERT_TRUE(ReadHello(*server_, In(kLong)).ok());
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
  Greeting greeting;
  greeting.needs_token = true;
  ASSERT_TRUE(SendGreeting(*server_, greeting, In(kLong)).ok());
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
  status = ReadHello(*server_, In(kLong)).status();
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
  Status status = ReadHello(*server_, In(kLong)).status();
  EXPECT_EQ(status.code(), Code::kMalformed);
  EXPECT_NE(status.message().find("262145"), std::string::npos) << status.message();
}

TEST_F(HandshakeTest, RefusesAMessageOutOfTurn) {
  HandshakeHeader header;
  header.type = 3;
  SendRaw(*client_, header);
  EXPECT_EQ(ReadHello(*server_, In(kLong)).status().code(), Code::kMalformed);
}

TEST_F(HandshakeTest, TimesOutOnASilentPeer) {
  EXPECT_EQ(ReadHello(*server_, In(5)).status().code(), Code::kTimeout);
  EXPECT_EQ(ClientHandshake(*client_, {}, {}, In(5)).status().code(), Code::kTimeout);
}

TEST(ForwardedVariableTest, AllowsOnlyTheList) {
  EXPECT_TRUE(IsForwardedVariable("CUDA_MODULE_LOADING"));
  EXPECT_FALSE(IsForwardedVariable("LD_PRELOAD"));
  EXPECT_FALSE(IsForwardedVariable("CUDA_VISIBLE_DEVICES"));
  for (std::string_view name : ForwardedVariables()) {
    EXPECT_TRUE(IsForwardedVariable(name));
  }
}

}  // namespace
}  // namespace farcall::test
