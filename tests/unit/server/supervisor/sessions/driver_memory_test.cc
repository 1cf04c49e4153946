// SPDX-License-Identifier: Apache-2.0
// What sessions take beside their allocations, without a supervisor. The process that asks NVML is
// this program, started again: it answers with what a file holds.
#include "server/supervisor/sessions/driver_memory.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quota/memory/memory_ledger.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "tests/unit/server/supervisor/sessions/session_parts_case.h"

namespace farcall::server {
namespace {

constexpr uint64_t kMib = 1 << 20;
constexpr int kPid = 4711;

// Lines of "device pid bytes".
int AnswerFrom(const std::filesystem::path& file) {
  for (;;) {
    control::ToProcessMemory question;
    std::vector<int> descriptors;
    if (!control::Receive(kControlDescriptor, &question, &descriptors).ok()) return 0;
    std::ifstream lines(file);
    control::ProcessMemory part;
    while (lines >> part.device >> part.pid >> part.bytes)
      if (!control::SendToSupervisor(kControlDescriptor, part).ok()) return 0;
    const control::ProcessMemoryEnd end{.id = std::get<control::AskProcessMemory>(question).id,
                                        .why_unknown = {}};
    if (!control::SendToSupervisor(kControlDescriptor, end).ok()) return 0;
  }
}

class DriverMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/farcall-driver-memory-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    ASSERT_GE(epoll_, 0);
  }
  void TearDown() override {
    close(epoll_);
    std::filesystem::remove_all(folder_);
  }

  ProbedDevices Devices(size_t count) const {
    ProbedDevices devices = DevicesOf(count, "cuda");
    devices.choice.path = folder_ / "libcuda.so.1";
    return devices;
  }
  void Write(const std::string& lines) { std::ofstream(folder_ / "figures") << lines; }
  void Join(DriverMemory& memory, int control, int pid, const std::string& vgpu) {
    auto session = SessionOf(control, vgpu);
    session->process.pid = pid;
    memory.Join(*session);
    sessions_.Add(std::move(session));
  }
  // Receives the answers until it is so.
  void ReceiveUntil(DriverMemory& memory, const std::function<bool()>& done) {
    while (!done()) {
      epoll_event event{};
      ASSERT_EQ(epoll_wait(epoll_, &event, 1, 30'000), 1) << "the helper is silent";
      ASSERT_EQ(memory.OnReadable(event.data.fd), HelperProcess::Read::kAnswered);
    }
  }
  DriverMemory::Hooks Hooks() {
    return {[this](int control, int) { return own_bytes_[control]; },
            [this](int, int device, uint64_t bytes) {
              const quota::Usage usage = ledger_.usage("run 1", device);
              auto charge = ledger_.Reserve(
                  "run 1", device, std::min(bytes, usage.quota_bytes - usage.charged_bytes));
              EXPECT_TRUE(charge.ok());
              return std::move(*charge);
            }};
  }

  std::filesystem::path folder_;
  int epoll_ = -1;
  std::map<int, uint64_t> own_bytes_;  // by control
  quota::MemoryLedger ledger_;
  SessionTable sessions_;
  Closer closer_;
};

TEST_F(DriverMemoryTest, ChargesWhatNvmlCountsBesideASessionsOwn) {
  ledger_.Open("run 1", 0, 1000 * kMib);
  const ProbedDevices devices = Devices(2);
  DriverMemory memory(devices, true, sessions_, closer_, epoll_, Hooks());
  Join(memory, 10, kPid, "run 1");
  own_bytes_[10] = 100 * kMib;
  Write("0 4711 419430400\n1 99 7\n");  // 400 MiB; another's on a device it does not have
  memory.Tick(0);
  ReceiveUntil(memory, [&] { return memory.ChargedOf(10, 0) != 0; });
  EXPECT_EQ(memory.ChargedOf(10, 0), 300 * kMib);
  EXPECT_EQ(memory.ChargedOf("run 1", 0), 300 * kMib);
  EXPECT_EQ(memory.BytesOf("run 1", 0), 300 * kMib);
  EXPECT_EQ(memory.BytesOf("run 1", 1), 0u);
  EXPECT_EQ(memory.BytesOf("run 2", 0), 0u);
  EXPECT_EQ(memory.Uncharged(0), 0u);
  EXPECT_EQ(ledger_.usage("run 1", 0).charged_bytes, 300 * kMib);
  memory.Leave(10);
  EXPECT_EQ(ledger_.usage("run 1", 0).charged_bytes, 0u);
}

TEST_F(DriverMemoryTest, WhatAQuotaHasNoRoomForIsKnownAndUncharged) {
  ledger_.Open("run 1", 0, 120 * kMib);
  const ProbedDevices devices = Devices(1);
  DriverMemory memory(devices, true, sessions_, closer_, epoll_, Hooks());
  Join(memory, 10, kPid, "run 1");
  Write("0 4711 314572800\n");
  memory.Tick(0);
  ReceiveUntil(memory, [&] { return memory.BytesOf("run 1", 0) != 0; });
  EXPECT_EQ(memory.BytesOf("run 1", 0), 300 * kMib);
  EXPECT_EQ(memory.ChargedOf(10, 0), 120 * kMib);
  EXPECT_EQ(memory.Uncharged(0), 180 * kMib);
}

TEST_F(DriverMemoryTest, ANewSessionIsChargedForTheContextThatItIsAboutToHave) {
  ledger_.Open("run 1", 0, 1000 * kMib);
  const ProbedDevices devices = Devices(1);
  DriverMemory memory(devices, true, sessions_, closer_, epoll_, Hooks());
  Join(memory, 10, kPid, "run 1");
  memory.Expect(10, 0);
  EXPECT_EQ(memory.ChargedOf(10, 0), 0u) << "no context was seen so far";
  Write("0 4711 314572800\n");
  memory.Tick(0);
  ReceiveUntil(memory, [&] { return memory.ChargedOf(10, 0) != 0; });
  Join(memory, 11, kPid + 1, "run 1");
  memory.Expect(11, 0);
  EXPECT_EQ(memory.ChargedOf(11, 0), 300 * kMib);
  EXPECT_EQ(memory.ChargedOf("run 1", 0), 600 * kMib);
}

TEST_F(DriverMemoryTest, AHelperThatEndedIsStartedAgainWithTheNextQuestion) {
  const ProbedDevices devices = Devices(1);
  DriverMemory memory(devices, false, sessions_, closer_, epoll_, Hooks());
  Join(memory, 10, kPid, "run 1");
  Write("0 4711 314572800\n");
  memory.Tick(0);
  memory.EndHelper();
  memory.Tick(quota::kSecond);
  EXPECT_EQ(memory.BytesOf("run 1", 0), 0u) << "it waits for an answer";
  memory.Tick(60 * quota::kSecond);
  ReceiveUntil(memory, [&] { return memory.BytesOf("run 1", 0) != 0; });
  EXPECT_EQ(memory.BytesOf("run 1", 0), 300 * kMib);
  EXPECT_EQ(memory.ChargedOf(10, 0), 0u) << "quotas are not charged";
  EXPECT_EQ(memory.Uncharged(0), 300 * kMib);
}

TEST_F(DriverMemoryTest, NothingIsAskedOfADeviceThatIsNotNvidias) {
  const ProbedDevices devices = DevicesOf(1);
  DriverMemory memory(devices, true, sessions_, closer_, epoll_, Hooks());
  Join(memory, 10, kPid, "run 1");
  memory.Tick(0);
  epoll_event event{};
  EXPECT_EQ(epoll_wait(epoll_, &event, 1, 0), 0);
  EXPECT_EQ(memory.BytesOf("run 1", 0) + memory.Uncharged(0) + memory.ChargedOf(10, 0), 0u);
}

}  // namespace

int StandInMain(const std::string& nvml_path) {
  return AnswerFrom(std::filesystem::path(nvml_path).parent_path() / "figures");
}

}  // namespace farcall::server

int main(int argc, char** argv) {
  if (argc > 3 && std::string(argv[1]) == "worker" && std::string(argv[2]) == "process-memory")
    return farcall::server::StandInMain(argv[3]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
