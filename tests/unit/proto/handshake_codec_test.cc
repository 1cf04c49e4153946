// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "proto/handshake/handshake.h"
#include "proto/handshake/session_features.h"
#include "proto/library/library_inventory.h"

namespace farcall {
namespace {

Hello FullHello() {
  Hello hello;
  hello.role = LinkRole::kLane;
  hello.lane = 3;
  RandomBytes(hello.session);
  hello.received_seq = 1ull << 40;
  hello.received_chunks = 17;
  hello.credentials = {{CredentialKind::kToken, {1, 2, 3, 4, 5, 6, 7, 8}},
                       {CredentialKind::kSession, {}}};
  hello.vgpu = "token";
  hello.quota = {4ull << 30, 300, 500, 2};
  hello.pid = 4242;
  hello.user = "ada";
  hello.host = "box";
  hello.program = "train.py";
  hello.client_version = "0.1";
  hello.environment = {{"CUDA_MODULE_LOADING", "LAZY"}, {"NVIDIA_TF32_OVERRIDE", ""}};
  hello.device_windows = {{0x200000000000, 8ull << 40}, {0x300000000000, 1ull << 38}};
  hello.host_windows = {{0x100000000000, 1ull << 38}};
  hello.shim_driver_version = 13000;
  return hello;
}

Welcome FullWelcome() {
  Welcome welcome;
  RandomBytes(welcome.session);
  welcome.received_seq = 5;
  welcome.received_chunks = 6;
  welcome.device_window = 1;
  welcome.host_window = 0;
  welcome.driver_version = 13000;
  welcome.lanes = 4;
  welcome.grace_ms = 1;
  welcome.heartbeat_ms = 2;
  welcome.server_version = "0.1";
  welcome.server_host = "gpu7";
  welcome.device_kind = "cuda";
  welcome.supported_calls = {1, 2, 255};
  welcome.known_images = {1ull << 63, 3};
  DeviceSnapshot device;
  device.name = "Some GPU";
  RandomBytes(device.uuid);
  device.total_bytes = 80ull << 30;
  device.pci_bus_id = "0000:01:00.0";
  device.attributes = {0, 1024, -1};
  device.limits = {1, 2};
  device.least_priority = 0;
  device.greatest_priority = -5;
  device.has_vmm = false;
  device.peer_access = {0, 1};
  welcome.devices = {device, device};
  welcome.libraries = {InventoryWord(LibraryId::kCublas, 13, 13 << 20),
                       InventoryWord(LibraryId::kCudnn, 0, 0)};
  return welcome;
}

TEST(HandshakeCodecTest, HelloComesBackWhole) {
  Hello sent = FullHello();
  Result<Hello> got = DecodeHello(Encode(sent));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->role, sent.role);
  EXPECT_EQ(got->session, sent.session);
  ASSERT_EQ(got->credentials.size(), 2u);
  EXPECT_EQ(got->credentials[0].id, sent.credentials[0].id);
  EXPECT_EQ(got->environment, sent.environment);
  EXPECT_EQ(got->quota.limit_milli, 500u);
  EXPECT_EQ(got->host_windows[0].bytes, 1ull << 38);
  EXPECT_EQ(got->shim_driver_version, 13000u);
  EXPECT_EQ(Encode(*got), Encode(sent));
}

TEST(HandshakeCodecTest, WelcomeGreetingAndRefuseComeBackWhole) {
  Welcome sent = FullWelcome();
  Result<Welcome> got = DecodeWelcome(Encode(sent));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->devices[1].attributes, sent.devices[1].attributes);
  EXPECT_EQ(got->devices[1].greatest_priority, -5);
  EXPECT_FALSE(got->devices[0].has_vmm);
  EXPECT_EQ(got->known_images, sent.known_images);
  EXPECT_TRUE(IsLacking(got->libraries, LibraryId::kCudnn));
  EXPECT_FALSE(IsLacking(got->libraries, LibraryId::kCublas));
  EXPECT_FALSE(IsLacking(got->libraries, LibraryId::kCufft)) << "not looked for";
  EXPECT_EQ(Encode(*got), Encode(sent));
  EXPECT_EQ(got->first_credit.bytes, 0u) << "not said";
  const size_t without = Encode(sent).size();
  sent.features |= FeatureBit(SessionFeature::kFirstCredit);
  sent.first_credit = {1ull << 40, 32u << 20};
  got = DecodeWelcome(Encode(sent));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->first_credit.base, 1ull << 40);
  EXPECT_EQ(got->first_credit.bytes, 32u << 20);
  std::vector<std::byte> cut = Encode(sent);
  cut.resize(without);
  EXPECT_FALSE(DecodeWelcome(cut).ok()) << "said, and not there";
  Greeting greeting;
  greeting.needs_token = true;
  greeting.server_version = "9";
  EXPECT_EQ(Encode(*DecodeGreeting(Encode(greeting))), Encode(greeting));
  Refuse refuse{Code::kQuotaExceeded, "no vGPU is free"};
  Result<Refuse> refused = DecodeRefuse(Encode(refuse));
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->code, Code::kQuotaExceeded);
  EXPECT_EQ(refused->message, "no vGPU is free");
}

// Shorter than an older peer's. Padding may stand in front of the field that it does not send.
TEST(HandshakeCodecTest, RedirectComesBackWholeAndNamesAnEndpoint) {
  Redirect redirect{{"tcp://gpu7:7717", "tcp://gpu8:7717"}, "v4.public.x", "c-1"};
  Result<Redirect> back = DecodeRedirect(Encode(redirect));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->endpoints, redirect.endpoints);
  EXPECT_EQ(back->lease, redirect.lease);
  EXPECT_EQ(back->claim, redirect.claim);
  std::vector<std::byte> whole = Encode(redirect);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(DecodeRedirect(std::span(whole).first(bytes)).ok()) << bytes;
  EXPECT_FALSE(DecodeRedirect(Encode(Redirect{{}, "lease", "claim"})).ok());
}

TEST(HandshakeCodecTest, WhatIsSaidToAPoolComesBackWhole) {
  Hello hello = FullHello();
  hello.devices = 2;
  hello.claim = "c-1";
  hello.lease = "v4.public.x";
  Result<Hello> back = DecodeHello(Encode(hello));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::tuple(back->devices, back->claim, back->lease),
            std::tuple(2u, "c-1", "v4.public.x"));
}

TEST(HandshakeCodecTest, NoTruncationDecodes) {
  std::vector<std::byte> hello = Encode(FullHello()), welcome = Encode(FullWelcome());
  for (size_t bytes = 0; bytes < hello.size(); ++bytes) {
    EXPECT_EQ(DecodeHello(std::span(hello).first(bytes)).status().code(), Code::kMalformed)
        << bytes;
  }
  for (size_t bytes = 0; bytes < welcome.size(); ++bytes) {
    EXPECT_EQ(DecodeWelcome(std::span(welcome).first(bytes)).status().code(), Code::kMalformed)
        << bytes;
  }
}

TEST(HandshakeCodecTest, AppendedFieldsOfANewerMinorArePassedOver) {
  std::vector<std::byte> hello = Encode(FullHello());
  hello.resize(hello.size() + 64, std::byte{1});
  EXPECT_TRUE(DecodeHello(hello).ok());
}

TEST(HandshakeCodecTest, FlippedAndRandomBytesNeverOverread) {
  std::mt19937 random(5);
  std::vector<std::byte> good = Encode(FullWelcome()), hello = Encode(FullHello());
  int decoded = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = round % 2 == 0 ? good : hello;
    for (int flips = 0; flips < 3; ++flips)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    decoded += DecodeWelcome(bytes).ok() + DecodeHello(bytes).ok();
    std::vector<std::byte> noise(random() % 300);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    decoded += DecodeWelcome(noise).ok() + DecodeHello(noise).ok() + DecodeGreeting(noise).ok() +
               DecodeRefuse(noise).ok();
  }
  EXPECT_GT(decoded, 0);  // some flips hit only values
}

TEST(HandshakeCodecTest, ACountBeyondTheBodyIsRefusedBeforeAnythingIsAllocated) {
  std::vector<std::byte> welcome = Encode(Welcome{});
  uint64_t count = UINT64_MAX / 2;
  // The device list's: features, transport and libraries follow.
  std::memcpy(welcome.data() + welcome.size() - 32, &count, 8);
  EXPECT_EQ(DecodeWelcome(welcome).status().code(), Code::kMalformed);
  Welcome many;
  many.lanes = kMaxLanes;
  EXPECT_TRUE(DecodeWelcome(Encode(many)).ok());
  ++many.lanes;
  EXPECT_FALSE(DecodeWelcome(Encode(many)).ok()) << "a thread and a buffer each in the client";
}

TEST(HandshakeCodec, RefusesTextsLongerThanAnHonestPeersOwn) {
  const Hello whole = FullHello();
  ASSERT_TRUE(DecodeHello(Encode(whole)).ok());
  for (std::string Hello::*field :
       {&Hello::vgpu, &Hello::user, &Hello::host, &Hello::client_version, &Hello::claim}) {
    Hello hello = whole;
    hello.*field = std::string(kMaxNameBytes, 'x');
    EXPECT_TRUE(DecodeHello(Encode(hello)).ok());
    EXPECT_TRUE(CheckHello(hello).ok());
    hello.*field += 'x';
    EXPECT_EQ(CheckHello(hello).code(), Code::kInvalid);
    EXPECT_EQ(DecodeHello(Encode(hello)).status().code(), Code::kMalformed);
  }
  Hello hello = whole;
  hello.program = std::string(kMaxPathBytes + 1, 'x');
  EXPECT_FALSE(DecodeHello(Encode(hello)).ok());
  hello = whole;
  hello.lease = std::string(kMaxLeaseTextBytes + 1, 'x');
  EXPECT_FALSE(DecodeHello(Encode(hello)).ok());
  hello = whole;
  hello.environment = {{"A", std::string(kMaxVariableBytes + 1, 'x')}};
  EXPECT_FALSE(DecodeHello(Encode(hello)).ok());
  Welcome welcome = FullWelcome();
  welcome.server_host = std::string(kMaxNameBytes + 1, 'x');
  EXPECT_FALSE(DecodeWelcome(Encode(welcome)).ok());
}

TEST(HandshakeCodec, ARefusalIsOnePrintableLine) {
  Refuse refuse{Code::kRefused, "no\n\x1b[31mfarcall: all is well" + std::string(10'000, 'x')};
  Result<Refuse> read = DecodeRefuse(Encode(refuse));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->message.substr(0, 8), "no\\n\\x1b");
  EXPECT_LE(read->message.size(), kMaxRefusalBytes);
}

}  // namespace
}  // namespace farcall
