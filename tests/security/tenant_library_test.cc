// SPDX-License-Identifier: Apache-2.0
// A tenant's library records against a real worker: addresses of the worker's memory in every role
// and pointer mode, and work that says that it is none.
#include <dirent.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "generated/proto/cublas_call.h"
#include "generated/proto/cufft_call.h"
#include "tests/security/tenant_client.h"

namespace farcall::testing {
namespace {

using Cublas = cublas::Function;
using Cufft = cufft::Function;

constexpr uint64_t kHandle = MakeLibraryObject(LibraryId::kCublas, 1, 1);
constexpr uint64_t kPlan = MakeLibraryObject(LibraryId::kCufft, 1, 2);
constexpr uint64_t kMiB = 1u << 20;
enum Mode : uint8_t { kHost = 0, kDevice = 1 };

class TenantLibrary : public ::testing::Test {
 protected:
  void Serve(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--device", "cpu", "--trust-tenants"});
    setenv("FARCALL_LIBRARIES", FARCALL_PRYING_LIBRARIES, 1);
    server_ = std::make_unique<ServerProcess>(flags, false);
    unsetenv("FARCALL_LIBRARIES");
  }

  // A session with a handle, a plan, and where the worker keeps what is not a tenant's.
  void Open() {
    client_ = std::make_unique<RawClient>();
    ASSERT_TRUE(client_->Connect(server_->url()).ok()) << server_->ready();
    client_->RetainPrimary();
    ASSERT_EQ(StatusOf(Ask(Of(Cublas::cublasCreate_v2, kHost))), 0);
    ASSERT_EQ(StatusOf(Ask(Of(Cufft::cufftCreate))), 0);
    victim_ = Size();
    ASSERT_GT(victim_, 1u << 16);
  }

  static Builder Of(Cublas function, Mode mode) {
    Builder body = LibraryRecord(LibraryId::kCublas, function, mode);
    body.Put<uint64_t>(kHandle);
    return body;
  }
  static Builder Of(Cufft function) {
    Builder body = LibraryRecord(LibraryId::kCufft, function);
    body.Put<uint64_t>(kPlan);
    return body;
  }
  static void PutNumber(Builder& body, uint32_t number) {
    body.Put<uint64_t>(sizeof(number));
    for (size_t i = 0; i < sizeof(number); ++i)
      body.Put<uint8_t>(static_cast<uint8_t>(number >> 8 * i));
  }
  void PutVictim(Builder& body) const {
    body.Put<uint64_t>(kLibraryOnDevice);
    body.Put<uint64_t>(victim_);
  }
  RawReply Ask(const Builder& body) { return client_->Ask(SessionCall::kLibrary, body); }
  static int32_t StatusOf(const RawReply& reply) {
    return reply.arrived && reply.status == 0 ? Reader(reply.out).Get<int32_t>() : -1;
  }
  uint64_t Size() {
    Builder body = Of(Cufft::cufftGetSize);
    body.Put<uint8_t>(1);
    const RawReply reply = Ask(body);
    Reader in(reply.out);
    in.Get<int32_t>();
    in.Get<uint32_t>();
    std::span<const std::byte> bytes = in.GetBytes();
    uint64_t size = 0;
    if (bytes.size() == sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
    return size;
  }

  // The session ends as a liar's, and nothing of the worker's comes back.
  void ExpectMalformed(const char* how, const Builder& body) {
    const RawReply reply = Ask(body);
    EXPECT_EQ(client_->WaitEnd().code(), Code::kMalformed) << how;
    EXPECT_EQ(TextOf(reply).find("worker"), std::string::npos) << how;
    EXPECT_NE(StatusOf(reply), 0) << how;
    Open();
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<RawClient> client_;
  uint64_t victim_ = 0;
};

TEST_F(TenantLibrary, AnAddressWhereTheHostsBytesBelongIsALie) {
  Serve();
  Open();
  for (int which = 0; which < 4; ++which) {
    Builder body = Of(Cublas::cublasSrotg_v2, kHost);
    for (int i = 0; i < 4; ++i) i == which ? PutVictim(body) : PutNumber(body, 1);
    ExpectMalformed("read and written", body);
  }
  Builder norm = Of(Cublas::cublasSnrm2_v2, kHost);
  norm.Put<int32_t>(1);
  norm.Put<int32_t>(1);
  norm.Put<uint64_t>(0);
  PutVictim(norm);
  ExpectMalformed("a result", norm);
  Builder scale = Of(Cublas::cublasSscal_v2, kHost);
  scale.Put<int32_t>(1);
  scale.Put<int32_t>(1);
  PutVictim(scale);
  scale.Put<uint64_t>(0);
  ExpectMalformed("a scalar", scale);
  Builder policy = Of(Cufft::cufftXtSetWorkAreaPolicy);
  policy.Put<int32_t>(0);
  PutVictim(policy);
  ExpectMalformed("updated whatever the mode", policy);
  Builder many = Of(Cufft::cufftMakePlanMany);
  for (int value : {1, 1, 1, 1, 1, 0x29, 1}) many.Put<int32_t>(value);
  for (int i = 0; i < 3; ++i) PutVictim(many);
  many.Put<uint8_t>(1);
  ExpectMalformed("an array", many);
}

TEST_F(TenantLibrary, AnAddressOfTheWorkersOnTheDeviceLeadsNowhere) {
  Serve();
  Open();
  for (int64_t off : {-8, 0, 1, 4096}) {
    victim_ += static_cast<uint64_t>(off);
    Builder rotate = Of(Cublas::cublasSrotg_v2, kDevice);
    for (int i = 0; i < 4; ++i) PutVictim(rotate);
    EXPECT_EQ(StatusOf(Ask(rotate)), 0);
    Builder norm = Of(Cublas::cublasSnrm2_v2, kDevice);
    norm.Put<int32_t>(1);
    norm.Put<int32_t>(1);
    norm.Put<uint64_t>(victim_);
    PutVictim(norm);
    EXPECT_EQ(StatusOf(Ask(norm)), 0);
    Builder scale = Of(Cublas::cublasSscal_v2, kDevice);
    scale.Put<int32_t>(1);
    scale.Put<int32_t>(1);
    PutVictim(scale);
    scale.Put<uint64_t>(victim_);
    EXPECT_EQ(StatusOf(Ask(scale)), 0);
    for (Mode mode : {kHost, kDevice}) {
      Builder swap = Of(Cublas::cublasSswap_v2, mode);
      for (int i = 0; i < 3; ++i) swap.Put<int32_t>(1);
      swap.Put<uint64_t>(victim_);
      swap.Put<uint64_t>(victim_);
      EXPECT_EQ(StatusOf(Ask(swap)), 0);
    }
    Builder area = Of(Cufft::cufftXtSetWorkArea);
    area.Put<uint64_t>(sizeof(uint64_t));
    area.Put<uint64_t>(victim_);
    EXPECT_EQ(StatusOf(Ask(area)), 0);
    victim_ -= static_cast<uint64_t>(off);
  }
  EXPECT_EQ(Size(), 0u) << "pointers to the worker's memory have reached the library";
}

// ---- time

double CpuSeconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  std::istringstream fields(text.str().substr(text.str().rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The one child of the server that holds the session: the youngest.
pid_t WorkerOf(pid_t server) {
  pid_t youngest = 0;
  DIR* processes = opendir("/proc");
  while (const dirent* entry = readdir(processes)) {
    const pid_t pid = std::atoi(entry->d_name);
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    if (pid <= 0 || text.empty()) continue;
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string state;
    pid_t parent = 0;
    fields >> state >> parent;
    youngest = parent == server && state != "Z" ? std::max(youngest, pid) : youngest;
  }
  closedir(processes);
  return youngest;
}

class TenantTime : public TenantLibrary, public ::testing::WithParamInterface<const char*> {
 protected:
  struct Done {
    int calls = 0;
    double cpu_s = 0, wall_s = 0;
  };

  Done WorkFor(double seconds, const std::vector<std::string>& flags) {
    Serve(flags);
    Open();
    const Window credit = client_->NeedCredit(2 * kMiB);
    EXPECT_GE(credit.bytes, 2 * kMiB);
    client_->Alloc(credit.base, kMiB);
    Builder area = Of(Cufft::cufftXtSetWorkArea);
    area.Put<uint64_t>(sizeof(uint64_t));
    area.Put<uint64_t>(credit.base);
    EXPECT_EQ(StatusOf(Ask(area)), 0);
    const pid_t worker = WorkerOf(server_->pid());
    const auto work_until = [&](Clock::time_point end) {
      int calls = 0;
      for (; Clock::now() < end && StatusOf(Ask(Work(credit.base))) == 0 &&
             client_->Synchronize().status == 0;
           ++calls) {
      }
      return calls;
    };
    const auto span = [](double s) {
      return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
    };
    work_until(Clock::now() + span(seconds / 2));  // until costs are known
    Done done;
    const double before_s = CpuSeconds(worker);
    const auto begin = Clock::now();
    done.calls = work_until(begin + span(seconds));
    done.cpu_s = CpuSeconds(worker) - before_s;
    done.wall_s = std::chrono::duration<double>(Clock::now() - begin).count();
    return done;
  }

  Builder Work(uint64_t at) const {
    if (std::string(GetParam()) == "SlowRow") {
      Builder many = Of(Cufft::cufftMakePlanMany);
      for (int value : {1, 1, 1, 1, 1, 0x29, 1}) many.Put<int32_t>(value);
      for (int i = 0; i < 3; ++i) PutNumber(many, 8);
      many.Put<uint8_t>(1);
      return many;
    }
    Builder swap = Of(Cublas::cublasSswap_v2, kHost);  // its stream: 0, "none"
    for (int value : {64, 1, 1}) swap.Put<int32_t>(value);
    swap.Put<uint64_t>(at);
    swap.Put<uint64_t>(0);
    return swap;
  }
};

// Of a limit of a tenth. Whoever was not held got four times that. In units of work, whose cost
// shows where nothing limits it: other load of the machine can only make them fewer.
TEST_P(TenantTime, IsHeldToItsLimitWhateverItsRecordsSay) {
  const Done all = WorkFor(2, {});
  ASSERT_GT(all.calls, 2);
  const Done held = WorkFor(6, {"--max-limit", "10%", "--max-share", "10%"});
  const double share = held.calls * (all.cpu_s / all.calls) / held.wall_s;
  std::printf("%s: %d calls in %.1f s, of %.4f s each: %.3f of the device\n", GetParam(),
              held.calls, held.wall_s, all.cpu_s / all.calls, share);
  EXPECT_GT(held.calls, 2);
  EXPECT_LT(share, 0.4);  // with what a waiting worker spends on its link
}

INSTANTIATE_TEST_SUITE_P(Records, TenantTime, ::testing::Values("StreamNone", "SlowRow"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace farcall::testing
