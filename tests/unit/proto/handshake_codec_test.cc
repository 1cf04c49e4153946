// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "proto/handshake.h"
#include "proto/library_inventory.h"
#include "proto/session_features.h"

namespace farcall {
namespace {

Hello FullHello() {
  Hello hello;
  hello.role = LinkRole::kLane;
  hello.lane = 3;
  RandomBytes(hello.session);
  hello.received_seq = 1ull << 40;
  hello.received_chunks = 17;
  RandomBytes(hello.nonce);
  RandomBytes(hello.proof);
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

// Of a HELLO, what came after its features: devices with its padding, no claim, no lease, the
// budget of the network.
constexpr size_t kAfterFeaturesBytes = 8 + 8 + 8 + 8;
// Of a WELCOME: its libraries, two words.
constexpr size_t kAfterWelcomesFeaturesBytes = 8 + 2 * 8;

Welcome FullWelcome() {
  Welcome welcome;
  RandomBytes(welcome.session);
  RandomBytes(welcome.key);
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
  EXPECT_EQ(got->nonce, sent.nonce);
  EXPECT_EQ(got->proof, sent.proof);
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
  constexpr size_t kAppendedBytes = 8 + 7;
  std::vector<std::byte> hello = Encode(FullHello()), welcome = Encode(FullWelcome());
  for (size_t bytes = 0; bytes + kAppendedBytes + kAfterFeaturesBytes < hello.size(); ++bytes) {
    EXPECT_EQ(DecodeHello(std::span(hello).first(bytes)).status().code(), Code::kMalformed)
        << bytes;
  }
  for (size_t bytes = 0; bytes + kAppendedBytes + kAfterWelcomesFeaturesBytes < welcome.size();
       ++bytes) {
    EXPECT_EQ(DecodeWelcome(std::span(welcome).first(bytes)).status().code(), Code::kMalformed)
        << bytes;
  }
}

TEST(HandshakeCodecTest, APeerThatDoesNotTellOfFeaturesHasNone) {
  Hello hello = FullHello();
  Welcome welcome = FullWelcome();
  hello.features = welcome.features = FeatureBit(SessionFeature::kMirrors);
  welcome.supported_calls.clear();
  std::vector<std::byte> sent = Encode(hello), answered = Encode(welcome);
  EXPECT_TRUE(HasFeature(*DecodeHello(sent), SessionFeature::kMirrors));
  EXPECT_TRUE(HasFeature(*DecodeWelcome(answered), SessionFeature::kMirrors));
  EXPECT_FALSE(HasFeature(*DecodeWelcome(answered), SessionFeature::kNvml));
  Result<Hello> older = DecodeHello(std::span(sent).first(sent.size() - kAfterFeaturesBytes - 8));
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->features, 0u);
  EXPECT_EQ(older->shim_driver_version, hello.shim_driver_version);
  EXPECT_EQ(std::tuple(older->devices, older->claim, older->lease), std::tuple(0u, "", ""));
  TellNvmlToOlderPeers(&welcome);
  answered = Encode(welcome);
  Result<Welcome> answer =
      DecodeWelcome(std::span(answered).first(answered.size() - kAfterWelcomesFeaturesBytes - 8));
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->libraries.empty());
  EXPECT_FALSE(HasFeature(*answer, SessionFeature::kMirrors));
  EXPECT_TRUE(HasFeature(*answer, SessionFeature::kNvml)) << "by the bit where no call stands";
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
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    decoded += DecodeWelcome(bytes).ok() + DecodeHello(bytes).ok();
    std::vector<std::byte> noise(random() % 300);
    for (std::byte& byte : noise) {
      byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    }
    decoded += DecodeWelcome(noise).ok() + DecodeHello(noise).ok() + DecodeGreeting(noise).ok() +
               DecodeRefuse(noise).ok();
  }
  EXPECT_GT(decoded, 0);  // some flips hit only values
}

TEST(HandshakeCodecTest, ACountBeyondTheBodyIsRefusedBeforeAnythingIsAllocated) {
  std::vector<std::byte> welcome = Encode(Welcome{});
  uint64_t count = UINT64_MAX / 2;
  std::memcpy(welcome.data() + welcome.size() - 24, &count, 8);  // the device list's
  EXPECT_EQ(DecodeWelcome(welcome).status().code(), Code::kMalformed);
}

TEST(HashTest, MatchesPublishedValues) {
  const char* text = "abc";
  Hash256 hash = Sha256(std::as_bytes(std::span(text, 3)));
  const uint8_t expected[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea};
  EXPECT_TRUE(SameBytes(std::span(hash).first(8), expected));
  EXPECT_FALSE(SameBytes(std::span(hash).first(7), expected));
}

TEST(HashTest, TheProofBindsEachOfItsParts) {
  Hello hello = FullHello();
  Nonce nonce{};
  const std::vector<uint8_t> key(32, 1), other_key(32, 2);
  Hash256 proof = HelloProof(key, nonce, hello);
  EXPECT_EQ(HelloProof(key, nonce, hello), proof);
  EXPECT_NE(HelloProof(other_key, nonce, hello), proof);
  Nonce other_nonce{1};
  EXPECT_NE(HelloProof(key, other_nonce, hello), proof);
  for (int part = 0; part < 4; ++part) {
    Hello changed = hello;
    if (part == 0) {
      changed.nonce[0] ^= 1;
    }
    if (part == 1) {
      changed.role = LinkRole::kLog;
    }
    if (part == 2) {
      changed.lane += 256;
    }
    if (part == 3) {
      changed.session[15] ^= 1;
    }
    EXPECT_NE(HelloProof(key, nonce, changed), proof) << part;
  }
}

TEST(HandshakeCodec, RefusesTextsLongerThanAnHonestPeersOwn) {
  const Hello whole = FullHello();
  ASSERT_TRUE(DecodeHello(Encode(whole)).ok());
  for (std::string Hello::*field :
       {&Hello::vgpu, &Hello::user, &Hello::host, &Hello::client_version, &Hello::claim}) {
    Hello hello = whole;
    hello.*field = std::string(kMaxNameBytes, 'x');
    EXPECT_TRUE(DecodeHello(Encode(hello)).ok());
    hello.*field += 'x';
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
