// SPDX-License-Identifier: Apache-2.0
// Peers that lie, and limits that hold: what one session does ends only that session.
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <functional>

#include "tests/end_to_end/server/raw_client.h"
#include "tests/end_to_end/server/server_process.h"

namespace farcall::testing {
namespace {

constexpr uint64_t kMiB = 1u << 20;

struct HostileInput {
  const char* name;
  std::function<void(RawClient&)> tell;
};

Builder Numbers(std::initializer_list<uint64_t> values) {
  Builder body;
  for (uint64_t value : values) body.Put<uint64_t>(value);
  return body;
}

std::vector<std::byte> RecordOfLength(uint32_t bytes, size_t real_bytes) {
  std::vector<std::byte> record(real_bytes);
  RecordHeader header;
  header.bytes = bytes;
  header.call = static_cast<uint16_t>(CallId::cuCtxSynchronize_v2);
  std::memcpy(record.data(), &header, sizeof(header));
  return record;
}

const HostileInput kHostileInputs[] = {
    {"LengthOverTheFrame", [](RawClient& client) { client.SendRaw(RecordOfLength(4096, 64)); }},
    {"LengthOfNothing", [](RawClient& client) { client.SendRaw(RecordOfLength(0, 64)); }},
    {"LengthUnaligned", [](RawClient& client) { client.SendRaw(RecordOfLength(57, 64)); }},
    {"BodyTooShort", [](RawClient& client) { client.Post(CallId::cuMemAlloc_v2, Numbers({1})); }},
    {"BodyTooLong",
     [](RawClient& client) {
       client.Post(CallId::cuStreamSynchronize, Numbers({1, 2, 3, 4}));
     }},
    {"HandleNeverAssigned",
     [](RawClient& client) {
       client.Post(CallId::cuStreamSynchronize, Numbers({MakeHandle(HandleKind::kStream, 9, 1)}));
     }},
    {"HandleOfAnotherKind",
     [](RawClient& client) {
       client.Post(CallId::cuStreamSynchronize, Numbers({MakeHandle(HandleKind::kEvent, 1, 1)}));
     }},
    {"HandleFarOut",
     [](RawClient& client) {
       client.Post(CallId::cuDevicePrimaryCtxRetain,
                   Numbers({0, MakeHandle(HandleKind::kContext, 60000, 1)}), 0);
     }},
    {"AddressOutsideTheWindow",
     [](RawClient& client) {
       client.Post(CallId::cuMemcpyDtoDAsync_v2, Numbers({0x1000, 0x2000, 64, kLegacy}));
     }},
    {"AddressOfTheServersOwn",
     [](RawClient& client) {
       client.Post(CallId::cuMemcpyDtoHAsync_v2,
                   Numbers({reinterpret_cast<uint64_t>(&kHostileInputs), 64, kLegacy, 0}));
     }},
    {"SizeThatWraps",
     [](RawClient& client) {
       Window credit = client.NeedCredit(2 * kMiB);
       client.Post(CallId::cuMemcpyDtoDAsync_v2,
                   Numbers({credit.base, credit.base, ~uint64_t{0} - 16, kLegacy}));
     }},
    {"AllocationOutsideCredit",
     [](RawClient& client) { client.Alloc(kWindowBase + (uint64_t{1} << 35), 4096); }},
    {"AllocationTwice",
     [](RawClient& client) {
       Window credit = client.NeedCredit(2 * kMiB);
       client.Alloc(credit.base, 8192);
       client.Alloc(credit.base + 4096, 8192);
     }},
    {"CreditReturnedTwice",
     [](RawClient& client) {
       Window credit = client.NeedCredit(2 * kMiB);
       for (int i = 0; i < 2; ++i)
         client.Send(static_cast<uint16_t>(SessionCall::kReturnCredit),
                     Numbers({0, credit.base, credit.bytes}));
     }},
    {"AttributeCountOfBillions",
     [](RawClient& client) {
       Builder body = Numbers(
           {MakeHandle(HandleKind::kFunction, 1, 1), 0, 0, 0, 0, kLegacy, ~uint64_t{0} / 2, 0});
       client.Post(CallId::cuLaunchKernel, body);
     }},
    {"TransferThatWasNotSent",
     [](RawClient& client) {
       Window credit = client.NeedCredit(2 * kMiB);
       client.Post(CallId::cuMemcpyHtoDAsync_v2, Numbers({credit.base, kMiB, kLegacy, 77, 0}));
     }},
    {"ImageOfAnotherHash",
     [](RawClient& client) {
       Builder body;
       Hash256 hash{};
       body.PutBytes(hash.data(), hash.size());
       body.Put<uint64_t>(5);
       body.Put<uint64_t>(0);
       body.PutBytes("image", 5);
       client.Send(static_cast<uint16_t>(SessionCall::kNamedImage), body);
     }},
    {"HostFunctionThatNeverRan",
     [](RawClient& client) {
       client.Send(static_cast<uint16_t>(SessionCall::kHostDone), Numbers({42}));
     }},
    {"MappingOutsideTheReservationHalf",
     [](RawClient& client) {
       uint64_t memory = MakeHandle(HandleKind::kMemHandle, 1, 1);
       EXPECT_EQ(client.Ask(CallId::cuMemCreate, Numbers({memory, 2 * kMiB, 0})).status,
                 CUDA_SUCCESS);
       client.Post(CallId::cuMemMap, Numbers({kWindowBase, 2 * kMiB, 0, memory}));
     }},
    {"MappingTwice",
     [](RawClient& client) {
       uint64_t memory = MakeHandle(HandleKind::kMemHandle, 1, 1);
       uint64_t half = ReservationHalf({kWindowBase, uint64_t{1} << 36}).base;
       client.Ask(CallId::cuMemCreate, Numbers({memory, 2 * kMiB, 0}));
       client.Post(CallId::cuMemMap, Numbers({half, 2 * kMiB, 0, memory}));
       client.Post(CallId::cuMemMap, Numbers({half, 2 * kMiB, 0, memory}));
     }},
    {"ReleaseOfWhatIsMapped",
     [](RawClient& client) {
       uint64_t memory = MakeHandle(HandleKind::kMemHandle, 1, 1);
       uint64_t half = ReservationHalf({kWindowBase, uint64_t{1} << 36}).base;
       client.Ask(CallId::cuMemCreate, Numbers({memory, 2 * kMiB, 0}));
       client.Post(CallId::cuMemMap, Numbers({half, 2 * kMiB, 0, memory}));
       client.Post(CallId::cuMemRelease, Numbers({memory}));
     }},
    {"MemoryInAMulticastObjectsPlace",
     [](RawClient& client) {
       uint64_t memory = MakeHandle(HandleKind::kMemHandle, 1, 1);
       client.Ask(CallId::cuMemCreate, Numbers({memory, 2 * kMiB, 0}));
       client.Post(CallId::cuMulticastAddDevice, Numbers({memory, 0}));
     }},
    {"BindingWithoutTheTeam",
     [](RawClient& client) {
       uint64_t memory = MakeHandle(HandleKind::kMemHandle, 1, 1);
       uint64_t object = MakeHandle(HandleKind::kMemHandle, 2, 1);
       client.Ask(CallId::cuMemCreate, Numbers({memory, 2 * kMiB, 0}));
       EXPECT_EQ(client.Ask(CallId::cuMulticastCreate, Numbers({object, 2 * kMiB, 1})).status,
                 CUDA_SUCCESS);
       client.Post(CallId::cuMulticastBindMem, Numbers({object, 0, memory, 0, 2 * kMiB}));
     }},
    {"MappingWithoutTheTeam",
     [](RawClient& client) {
       uint64_t object = MakeHandle(HandleKind::kMemHandle, 1, 1);
       uint64_t half = ReservationHalf({kWindowBase, uint64_t{1} << 36}).base;
       client.Ask(CallId::cuMulticastCreate, Numbers({object, 2 * kMiB, 1}));
       client.Post(CallId::cuMemMap, Numbers({half, 2 * kMiB, 0, object}));
     }},
    {"ReleaseOfWhatIsBound",
     [](RawClient& client) {
       uint64_t memory = MakeHandle(HandleKind::kMemHandle, 1, 1);
       uint64_t object = MakeHandle(HandleKind::kMemHandle, 2, 1);
       client.Ask(CallId::cuMemCreate, Numbers({memory, 2 * kMiB, 0}));
       client.Ask(CallId::cuMulticastCreate, Numbers({object, 2 * kMiB, 1}));
       EXPECT_EQ(client.Ask(CallId::cuMulticastAddDevice, Numbers({object, 0})).status,
                 CUDA_SUCCESS);
       Builder binding = Numbers({object, 0, memory, 0, 2 * kMiB});
       EXPECT_EQ(client.Ask(CallId::cuMulticastBindMem, binding).status, CUDA_SUCCESS);
       client.Post(CallId::cuMemRelease, Numbers({memory}));
     }},
    {"UnbindingOfWhatIsNotBound",
     [](RawClient& client) {
       uint64_t object = MakeHandle(HandleKind::kMemHandle, 1, 1);
       client.Ask(CallId::cuMulticastCreate, Numbers({object, 2 * kMiB, 1}));
       client.Post(CallId::cuMulticastUnbind, Numbers({object, 0, 2 * kMiB, 0}));
     }},
    {"MemoryThatIsNoWholeChunk",
     [](RawClient& client) {
       client.Post(CallId::cuMemCreate,
                   Numbers({MakeHandle(HandleKind::kMemHandle, 1, 1), 4096, 0}));
     }},
    {"IpcMemoryClosedThatIsNotOpen",
     [](RawClient& client) { client.Post(CallId::cuIpcCloseMemHandle, Numbers({kWindowBase})); }},
    {"MirrorOfWhatIsNone",
     [](RawClient& client) {
       Builder body = Numbers({0, 0, 0, 32, 0x1000, 8, 5, 0});
       client.Send(static_cast<uint16_t>(SessionCall::kMirrorUp), body);
     }},
    {"MirrorEndedThatIsNone",
     [](RawClient& client) {
       client.Send(static_cast<uint16_t>(SessionCall::kHostWindowEnd), Numbers({0x1000}));
     }},
    {"MessageOfTheServers",
     [](RawClient& client) {
       client.Send(static_cast<uint16_t>(SessionCall::kGrant), Numbers({0, 0, 0}));
     }},
};

class Hostile : public ::testing::TestWithParam<HostileInput> {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static ServerProcess* server_;
};
ServerProcess* Hostile::server_ = nullptr;

TEST_P(Hostile, EndsOnlyTheSessionThatLied) {
  RawClient bystander, liar;
  ASSERT_TRUE(bystander.Connect(server_->url()).ok());
  bystander.RetainPrimary();
  ASSERT_EQ(bystander.Synchronize().status, 0);
  ASSERT_TRUE(liar.Connect(server_->url()).ok());
  liar.RetainPrimary();
  ASSERT_EQ(liar.Synchronize().status, 0);
  GetParam().tell(liar);
  Status why = liar.WaitEnd();
  EXPECT_EQ(why.code(), Code::kMalformed) << why.message();
  EXPECT_FALSE(why.message().empty());
  EXPECT_EQ(bystander.Synchronize().status, 0);
}

INSTANTIATE_TEST_SUITE_P(Lies, Hostile, ::testing::ValuesIn(kHostileInputs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Server, AnswersAStaleHandleWithoutEndingTheSession) {
  ServerProcess server;
  RawClient client;
  ASSERT_TRUE(client.Connect(server.url()).ok());
  client.RetainPrimary();
  uint64_t stream = MakeHandle(HandleKind::kStream, 1, 1);
  Builder create;
  create.Put<uint64_t>(stream);
  create.Put<uint32_t>(0);
  create.Put<int32_t>(0);
  client.Post(CallId::cuStreamCreateWithPriority, create);
  EXPECT_EQ(client.Ask(CallId::cuStreamSynchronize, Numbers({stream})).status, 0);
  client.Post(CallId::cuStreamDestroy_v2, Numbers({stream}));
  EXPECT_EQ(client.Ask(CallId::cuStreamSynchronize, Numbers({stream})).status,
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.Synchronize().status, 0);
}

TEST(Server, RefusesAWrongTokenAndTakesTheRightOne) {
  ServerProcess server({"--token", "open sesame"});
  RawClient wrong, none, right;
  Status refused = wrong.Connect(server.url(), {.token = "open barley"});
  EXPECT_EQ(refused.code(), Code::kRefused);
  EXPECT_NE(refused.message().find("token"), std::string::npos) << refused.message();
  EXPECT_EQ(none.Connect(server.url()).code(), Code::kRefused);
  Status taken = right.Connect(server.url(), {.token = "open sesame"});
  EXPECT_TRUE(taken.ok()) << taken.message();
}

TEST(Server, IsNotHeldUpBySilentConnections) {
  ServerProcess server;
  std::vector<std::unique_ptr<Channel>> silent;
  for (int i = 0; i < 200; ++i) {
    Result<std::unique_ptr<Channel>> channel =
        Dial(server.url(), Clock::now() + std::chrono::seconds(5));
    ASSERT_TRUE(channel.ok());
    silent.push_back(std::move(*channel));
  }
  RawClient client;
  Status connected = client.Connect(server.url());
  EXPECT_TRUE(connected.ok()) << connected.message();
}

TEST(Server, SaysWhenItIsFull) {
  ServerProcess server({"--max-sessions", "1"});
  RawClient first, second;
  ASSERT_TRUE(first.Connect(server.url()).ok());
  Status refused = second.Connect(server.url());
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("full: 1 sessions of 1"), std::string::npos)
      << refused.message();
}

TEST(Server, HoldsTheSessionsOfAVgpuToOneQuota) {
  ServerProcess server({"--mem", "16MiB"});
  RawClient one, two, stranger;
  ASSERT_TRUE(one.Connect(server.url(), {.vgpu = "shared"}).ok());
  ASSERT_TRUE(two.Connect(server.url(), {.vgpu = "shared"}).ok());
  ASSERT_TRUE(stranger.Connect(server.url()).ok());
  EXPECT_EQ(one.welcome().devices[0].total_bytes, 16 * kMiB);
  EXPECT_EQ(one.NeedCredit(12 * kMiB).bytes, 12 * kMiB);
  EXPECT_EQ(two.NeedCredit(6 * kMiB).bytes, 0u) << "two bytes over is over";
  EXPECT_EQ(two.NeedCredit(4 * kMiB).bytes, 4 * kMiB);
  EXPECT_EQ(stranger.NeedCredit(16 * kMiB).bytes, 16 * kMiB);
}

TEST(Server, RecallsUnspentCreditBeforeItRefuses) {
  ServerProcess server({"--mem", "16MiB"});
  RawClient rich, poor;
  ASSERT_TRUE(rich.Connect(server.url(), {.vgpu = "shared"}).ok());
  ASSERT_TRUE(poor.Connect(server.url(), {.vgpu = "shared"}).ok());
  Window unspent = rich.NeedCredit(16 * kMiB);
  ASSERT_EQ(unspent.bytes, 16 * kMiB);
  Builder body;
  body.Put<int32_t>(0);
  body.Put<uint64_t>(8 * kMiB);
  body.Put<uint8_t>(1);
  uint32_t asked = poor.Send(static_cast<uint16_t>(SessionCall::kNeedCredit), body, kWantReply);
  // All of it is asked for: what goes back frees memory by whole chunks only.
  ASSERT_TRUE(rich.WaitFor([&] { return rich.recalled_bytes_ >= unspent.bytes; }));
  rich.Send(static_cast<uint16_t>(SessionCall::kReturnCredit),
            Numbers({0, unspent.base, unspent.bytes}));
  EXPECT_EQ(poor.WaitReply(asked).status, 0);
}

TEST(Server, GivesWhatTheClientAskedForAndRefusesMoreThanThereIs) {
  ServerProcess server({"--mem", "64MiB"});
  RawClient modest, greedy, silent;
  ASSERT_TRUE(modest.Connect(server.url(), {.memory_bytes = 8 * kMiB}).ok());
  EXPECT_EQ(greedy.Connect(server.url(), {.memory_bytes = 640 * kMiB}).code(), Code::kRefused);
  ASSERT_TRUE(silent.Connect(server.url()).ok());
  EXPECT_EQ(modest.welcome().devices[0].total_bytes, 8 * kMiB);
  EXPECT_EQ(silent.welcome().devices[0].total_bytes, 64 * kMiB);
}

// A child holds all of the vGPU's memory and is killed.
TEST(Server, HasAKilledClientsMemoryBack) {
  ServerProcess server({"--mem", "16MiB"});
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto* client = new RawClient;
    bool held = client->Connect(server.url(), {.vgpu = "v"}).ok() &&
                client->NeedCredit(16 * kMiB).bytes == 16 * kMiB;
    (void)!write(ready[1], held ? "y" : "n", 1);
    pause();
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  ASSERT_EQ(held, 'y');
  RawClient heir;
  ASSERT_TRUE(heir.Connect(server.url(), {.vgpu = "v"}).ok());
  EXPECT_EQ(heir.NeedCredit(2 * kMiB).bytes, 0u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Window credit;
  auto end = Clock::now() + std::chrono::seconds(10);
  while (credit.bytes == 0 && Clock::now() < end) credit = heir.NeedCredit(16 * kMiB);
  EXPECT_EQ(credit.bytes, 16 * kMiB);
}

TEST(Server, OutlivesAWorkerThatCrashes) {
  ServerProcess server;
  RawClient victim, other;
  ASSERT_TRUE(victim.Connect(server.url()).ok());
  ASSERT_TRUE(other.Connect(server.url()).ok());
  victim.RetainPrimary();
  other.RetainPrimary();
  std::string image = "crash";
  Hash256 hash = Sha256(std::as_bytes(std::span(image)));
  Builder named;
  named.PutBytes(hash.data(), hash.size());
  named.Put<uint64_t>(image.size());
  named.Put<uint64_t>(0);
  named.PutBytes(image.data(), image.size());
  victim.Send(static_cast<uint16_t>(SessionCall::kNamedImage), named);
  Builder load;
  load.Put<uint64_t>(MakeHandle(HandleKind::kModule, 1, 1));
  load.PutBytes(hash.data(), hash.size());
  load.Put<uint64_t>(image.size());
  load.Put<uint8_t>(0);
  load.Put<uint64_t>(0);
  victim.Post(CallId::cuModuleLoadDataEx, load);
  Status why = victim.WaitEnd();
  EXPECT_FALSE(why.ok());
  EXPECT_EQ(other.Synchronize().status, 0);
}

TEST(Server, DrainsAndEnds) {
  ServerProcess server;
  {
    RawClient client, late;
    ASSERT_TRUE(client.Connect(server.url()).ok());
    server.Signal(SIGTERM);
    Status refused;
    auto end = Clock::now() + std::chrono::seconds(5);
    do {
      RawClient probe;
      refused = probe.Connect(server.url());
    } while (refused.ok() && Clock::now() < end);
    EXPECT_NE(refused.message().find("draining"), std::string::npos) << refused.message();
    client.RetainPrimary();
    EXPECT_EQ(client.Synchronize().status, 0) << "a running session goes on";
  }
  EXPECT_EQ(server.Wait(), 0);
}

TEST(Server, RefusesToListenToAllWithoutAToken) {
  ServerProcess server({"--listen", "tcp://0.0.0.0:0"});
  EXPECT_EQ(server.ready(), "");
  EXPECT_EQ(server.Wait(), 2);
  server.FinishLog();
  EXPECT_NE(
      server.log().find("'tcp://0.0.0.0:0': an address other than the loopback needs --token-file"),
      std::string::npos)
      << server.log();
}

TEST(Server, SaysThatThereIsNoDevice) {
  ServerProcess server({"--device", Tool("FARCALL_BINARY")}, false);
  EXPECT_EQ(server.Wait(), 4);
  server.FinishLog();
  EXPECT_NE(server.log().find("no device"), std::string::npos) << server.log();
}

}  // namespace
}  // namespace farcall::testing
