// SPDX-License-Identifier: Apache-2.0
// Sessions of hand-made records against `farcall serve` on the fake device: the honest path.
#include <gtest/gtest.h>

#include <numeric>

#include "proto/cuda/host_window.h"
#include "tests/end_to_end/server/raw_client.h"
#include "tests/end_to_end/server/server_process.h"

// Read by ThreadSanitizer alone: a test forks a client, to kill it.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "die_after_fork=0";
}

namespace farcall::testing {
namespace {

constexpr uint64_t kMiB = 1u << 20;
#ifdef __SANITIZE_THREAD__
constexpr size_t kWindow = 2;  // the first lies in the sanitizer's shadow
#else
constexpr size_t kWindow = 0;
#endif

std::vector<std::byte> Pattern(size_t bytes) {
  std::vector<std::byte> data(bytes);
  uint32_t state = 1;
  for (std::byte& byte : data) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return data;
}

Builder Upload(uint64_t to, uint64_t bytes, uint64_t transfer, uint64_t offset) {
  Builder body;
  body.Put<uint64_t>(to);
  body.Put<uint64_t>(bytes);
  body.Put<uint64_t>(kLegacy);
  body.Put<uint64_t>(transfer);
  body.Put<uint64_t>(offset);
  return body;
}

Builder Download(uint64_t from, uint64_t bytes, uint64_t transfer) {
  Builder body;
  body.Put<uint64_t>(from);
  body.Put<uint64_t>(bytes);
  body.Put<uint64_t>(kLegacy);
  body.Put<uint64_t>(transfer);
  return body;
}

std::vector<std::byte> ReadInline(RawClient& client, uint64_t from, uint64_t bytes) {
  RawReply reply = client.Ask(CallId::cuMemcpyDtoHAsync_v2, Download(from, bytes, 0));
  EXPECT_EQ(reply.status, 0);
  Reader in(reply.out);
  auto got = in.GetBytes();
  return {got.begin(), got.end()};
}

uint64_t LoadModule(RawClient& client, const std::string& image, int32_t expected) {
  Hash256 hash = Sha256(std::as_bytes(std::span(image)));
  Builder named;
  named.PutBytes(hash.data(), hash.size());
  named.Put<uint64_t>(image.size());
  named.Put<uint64_t>(0);
  named.PutBytes(image.data(), image.size());
  client.Send(static_cast<uint16_t>(SessionCall::kNamedImage), named, 0, 0);
  uint64_t module = MakeHandle(HandleKind::kModule, 1, 1);
  Builder load;
  load.Put<uint64_t>(module);
  load.PutBytes(hash.data(), hash.size());
  load.Put<uint64_t>(image.size());
  load.Put<uint8_t>(0);
  load.Put<uint64_t>(0);
  EXPECT_EQ(client.Ask(CallId::cuModuleLoadDataEx, load).status, expected);
  return module;
}

TEST(Session, WelcomesWithTheDevicesAndTheWindow) {
  ServerProcess server;
  EXPECT_NE(server.ready().find("farcall: serving 1 device(s) on tcp://127.0.0.1:"),
            std::string::npos)
      << server.ready();
  EXPECT_NE(server.ready().find("(cuda: fake)"), std::string::npos) << server.ready();
  RawClient client;
  Status connected = client.Connect(server.url());
  ASSERT_TRUE(connected.ok()) << connected.message();
  const Welcome& welcome = client.welcome();
  ASSERT_EQ(welcome.devices.size(), 1u);
  EXPECT_EQ(welcome.devices[0].name, "fake");
  EXPECT_EQ(welcome.devices[0].total_bytes, uint64_t{1} << 30);
  EXPECT_EQ(welcome.devices[0].greatest_priority, -5);
  EXPECT_EQ(welcome.device_window, 0);
  EXPECT_EQ(welcome.driver_version, 13000u);
  auto supported = [&](CallId call) {
    auto id = static_cast<size_t>(call);
    return (welcome.supported_calls[id / 8] >> (id % 8) & 1) != 0;
  };
  EXPECT_TRUE(supported(CallId::cuLaunchKernel));
  EXPECT_FALSE(supported(CallId::cuInit)) << "never a record";
}

// An older client would take kMirrored for a lie.
TEST(Session, MirrorsHostMemoryOnlyForAClientThatTakesWhatTheDeviceWrites) {
  ServerProcess server;
  for (uint64_t features : {uint64_t{0}, FeatureBit(SessionFeature::kMirrors)}) {
    RawClient client;
    ConnectOptions options;
    options.features = features;
    ASSERT_TRUE(client.Connect(server.url(), options).ok());
    EXPECT_TRUE(HasFeature(client.welcome(), SessionFeature::kMirrors));
    client.RetainPrimary();
    Builder body;
    body.Put<uint64_t>(kHostWindows[kWindow].base);
    body.Put<uint64_t>(kHostPageBytes);
    body.Put<int32_t>(-1);
    EXPECT_EQ(client.Ask(SessionCall::kHostWindow, body).status,
              features == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS);
    EXPECT_EQ(client.Synchronize().status, 0) << "the session goes on";
  }
}

TEST(Session, CopiesInlineAndBack) {
  ServerProcess server;
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  EXPECT_EQ(client.Synchronize().status, 0);  // the context is there, and its first credit ahead
  Window credit = client.NeedCredit(3 * kMiB);
  constexpr uint64_t kFirstCredit = 32 * kMiB;
  ASSERT_EQ(credit.bytes, 4 * kMiB + kFirstCredit)
      << "a multiple of 2 MiB, and as much again as the session has";
  client.Alloc(credit.base, 65536);
  std::vector<std::byte> data = Pattern(60000);
  Builder body = Upload(credit.base, data.size(), 0, 0);
  body.PutBytes(data.data(), data.size());
  client.Post(CallId::cuMemcpyHtoDAsync_v2, body);
  EXPECT_EQ(ReadInline(client, credit.base, data.size()), data);
  EXPECT_EQ(client.Synchronize().status, 0);
}

// No event, and nothing to look at: the answer is there when the driver returns.
TEST(Session, ReadsAtOnceWhereNothingIsAhead) {
  ServerProcess server;
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  EXPECT_EQ(client.Synchronize().status, 0);
  Window credit = client.NeedCredit(kMiB);
  client.Alloc(credit.base, 65536);
  auto recordings = [&client] {
    Builder limit;
    limit.Put<int32_t>(CU_LIMIT_STACK_SIZE);
    RawReply reply = client.Ask(CallId::cuCtxGetLimit, limit);
    EXPECT_EQ(reply.status, 0);
    return Reader(reply.out).Get<uint64_t>();
  };
  uint64_t before = recordings();
  for (uint64_t bytes : {1, 4, 1000, 65536})
    EXPECT_EQ(ReadInline(client, credit.base, bytes).size(), bytes);
  EXPECT_EQ(recordings(), before);
}

TEST(Session, CopiesManyMebibytesByChunksBothWays) {
  ServerProcess server;
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  constexpr uint64_t kBytes = 100 * kMiB + 12345, kPiece = 4 * kMiB;
  Window credit = client.NeedCredit(kBytes);
  ASSERT_NE(credit.base, 0u);
  client.Alloc(credit.base, kBytes);
  ASSERT_TRUE(client.link().OpenLanes().ok());
  std::vector<std::byte> data = Pattern(kBytes);
  for (uint64_t offset = 0; offset < kBytes; offset += kPiece) {
    uint64_t piece = std::min(kPiece, kBytes - offset);
    ASSERT_TRUE(client.link()
                    .SendTransfer(1, offset, {data.data() + offset, piece}, Link::Retain::kCopied)
                    .ok());
    client.Post(CallId::cuMemcpyHtoDAsync_v2, Upload(credit.base + offset, piece, 1, offset));
  }
  // More than the server's staging holds at once: it goes on as the pieces are acknowledged.
  client.ExpectTransfers(kBytes);
  RawReply reply = client.Ask(CallId::cuMemcpyDtoHAsync_v2, Download(credit.base, kBytes, 2));
  EXPECT_EQ(reply.status, 0);
  ASSERT_TRUE(client.WaitFor([&] { return client.landed_bytes_[2] == kBytes; }));
  EXPECT_EQ(client.landed_[2], data);
}

TEST(Session, LoadsAnImageOnceAndLaunches) {
  ServerProcess server;
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  Window credit = client.NeedCredit(2 * kMiB);
  client.Alloc(credit.base, 4096);
  uint64_t module = LoadModule(client, "an image", 0);
  uint64_t function = MakeHandle(HandleKind::kFunction, 1, 1);
  Builder get;
  get.Put<uint64_t>(module);
  get.Put<uint64_t>(function);
  get.PutString("fill");
  RawReply described = client.Ask(CallId::cuModuleGetFunction, get);
  ASSERT_EQ(described.status, 0);
  Reader in(described.out);
  size_t attributes = in.GetCount(4);
  for (size_t i = 0; i < attributes; ++i) EXPECT_EQ(in.Get<int32_t>(), 7);
  ASSERT_EQ(in.GetCount(8), 3u);
  EXPECT_EQ(in.Get<uint32_t>(), 0u);
  EXPECT_EQ(in.Get<uint32_t>(), 8u);

  auto launch = [&](uint32_t block, size_t parameter_bytes) {
    struct {
      uint64_t at;
      uint32_t count, value;
    } parameters{credit.base, 1024, 0xABCD1234};
    Builder body;
    body.Put<uint64_t>(function);
    for (uint32_t value : {1u, 1u, 1u, block, 1u, 1u, 0u}) body.Put<uint32_t>(value);
    body.Put<uint64_t>(kLegacy);
    body.Put<uint64_t>(0);
    body.PutBytes(&parameters, parameter_bytes);
    return client.Post(CallId::cuLaunchKernel, body);
  };
  launch(256, 16);
  std::vector<std::byte> got = ReadInline(client, credit.base, 4096);
  uint32_t first = 0, last = 0;
  std::memcpy(&first, got.data(), 4);
  std::memcpy(&last, got.data() + 4092, 4);
  EXPECT_EQ(first, 0xABCD1234u);
  EXPECT_EQ(last, 0xABCD1234u);

  uint32_t too_large = launch(2048, 16), too_short = launch(256, 12);
  client.Synchronize();
  EXPECT_TRUE(client.WaitFor([&] {
    return client.errors_.count(too_large) != 0 && client.errors_.count(too_short) != 0;
  }));
  EXPECT_EQ(client.errors_[too_large], CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client.errors_[too_short], CUDA_ERROR_INVALID_VALUE);
}

TEST(Session, TellsWhyAModuleDidNotLoadAndGoesOn) {
  ServerProcess server;
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  uint64_t module = LoadModule(client, "a broken image", CUDA_ERROR_INVALID_PTX);
  Builder get;
  get.Put<uint64_t>(module);
  get.Put<uint64_t>(MakeHandle(HandleKind::kFunction, 1, 1));
  get.PutString("fill");
  EXPECT_EQ(client.Ask(CallId::cuModuleGetFunction, get).status, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.Synchronize().status, 0);
}

TEST(Session, TellsWhenFreedMemoryMayBeUsedAgain) {
  ServerProcess server;
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  Window credit = client.NeedCredit(2 * kMiB);
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    client.Alloc(credit.base, kMiB);
    Builder free;
    free.Put<uint64_t>(credit.base);
    free.Put<uint64_t>(epoch);
    client.Post(CallId::cuMemFree_v2, free);
    EXPECT_TRUE(client.WaitFor([&] { return client.freed_epoch_ == epoch; }));
  }
  Builder fence;
  fence.Put<uint64_t>(3);
  EXPECT_EQ(client.Ask(SessionCall::kFenceFrees, fence).status, 0);
  EXPECT_EQ(client.Synchronize().status, 0);
}

TEST(Session, HoldsTheStreamUntilTheHostFunctionHasRun) {
  ServerProcess server;
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  Builder body;
  body.Put<uint64_t>(1234);
  body.Put<uint64_t>(5678);
  body.Put<uint64_t>(kLegacy);
  client.Post(CallId::cuLaunchHostFunc, body);
  ASSERT_TRUE(client.WaitFor([&] { return client.host_function_ == 1234; }));
  Builder done;
  done.Put<uint64_t>(client.host_token_);
  client.Send(static_cast<uint16_t>(SessionCall::kHostDone), done);
  EXPECT_EQ(client.Synchronize().status, 0);
}

TEST(Session, SurvivesALostLink) {
  ServerProcess server({"--grace", "20"});
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  Window credit = client.NeedCredit(2 * kMiB);
  client.Alloc(credit.base, 4096);
  std::vector<std::byte> data = Pattern(4096);
  Builder body = Upload(credit.base, data.size(), 0, 0);
  body.PutBytes(data.data(), data.size());
  client.Post(CallId::cuMemcpyHtoDAsync_v2, body);
  ASSERT_EQ(client.Synchronize().status, 0);
  for (int i = 0; i < 3; ++i) {
    client.CutLink();
    EXPECT_EQ(ReadInline(client, credit.base, data.size()), data);
  }
  EXPECT_GE(client.link().counters().reconnects, 1u);
}

}  // namespace
}  // namespace farcall::testing
