// SPDX-License-Identifier: Apache-2.0
// A host's side of its pool: what an answer brings that the pool has to hear of at once.
#include "server/supervisor/services/pool_member.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "proto/hex.h"
#include "server/control/control_socket.h"
#include "server/control/memory_file.h"

namespace farcall::server {
namespace {

using Json = nlohmann::json;
using Claims = std::vector<std::pair<std::string, uint64_t>>;  // and their epochs

constexpr uint64_t kGib = 1ull << 30;
constexpr uint64_t kNetCeiling = 100'000'000;

DeviceReport OneDevice() {
  DeviceReport report;
  report.devices.resize(1);
  report.devices[0].total_bytes = kGib;
  return report;
}

// The test is the agent: it has the control socket of the one that the member started.
class PoolMemberTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/farcall-member-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    std::string path = folder_ + "/agent";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener_, 1), 0);
    PoolOptions options;
    options.url = path;
    options.name = "host";
    PoolMember::Calls calls;
    calls.end_sessions = [](const std::string&, const std::string&) {};
    calls.change = [](const quota::ClaimGrant&, const quota::ClaimGrant&) {};
    calls.park = [this](const quota::ClaimLedger::Parking& parking) {
      parkings_.push_back((parking.leaves ? "-" : "+") + parking.claim);
    };
    calls.status = [] { return nlohmann::json::object(); };
    member_ =
        std::make_unique<PoolMember>(closer_, epoll_, options, OneDevice(),
                                     quota::ClaimBounds{kNetCeiling, kGib, 1500}, std::move(calls));
    Status opened = member_->Open({"tcp://host:1"});
    ASSERT_TRUE(opened.ok()) << opened.message();
    int agent = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    ASSERT_GE(agent, 0);
    control::Packet packet;
    std::vector<int> descriptors;
    Status received = control::ReceivePacket(agent, &packet, &descriptors);
    close(agent);
    ASSERT_TRUE(received.ok()) << received.message();
    ASSERT_EQ(descriptors.size(), 1u);
    control_ = descriptors[0];
  }
  void TearDown() override {
    member_.reset();
    for (int fd : {control_, listener_, epoll_})
      if (fd >= 0) close(fd);
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  void Beat() {
    Status sent = control::Send(control_, control::PoolBeat{.beat = beat_});
    ASSERT_TRUE(sent.ok()) << sent.message();
    LetReceive();
  }
  void Answer(const std::string& text) {
    auto bytes = std::as_bytes(std::span(text));
    int file = MakeMemoryFile("farcall-test", {bytes.begin(), bytes.end()});
    Status sent = control::Send(control_, control::PoolAnswer{.beat = beat_}, {file});
    close(file);
    ASSERT_TRUE(sent.ok()) << sent.message();
    LetReceive();
  }
  void LetReceive() {
    epoll_event event{};
    ASSERT_EQ(epoll_wait(epoll_, &event, 1, -1), 1);
    ASSERT_TRUE(member_->OnReadable(event.data.fd));
  }
  // What the member has said since.
  std::vector<control::Type> Sent() {
    std::vector<control::Type> told;
    while (true) {
      char byte;
      if (recv(control_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) return told;
      control::ToPoolAgent message;
      std::vector<int> descriptors;
      if (!control::Receive(control_, &message, &descriptors).ok()) return told;
      if (!descriptors.empty()) {
        auto bytes = ReadMemoryFile(descriptors[0], 1 << 20);
        EXPECT_TRUE(bytes.ok());
        if (bytes.ok()) report_.assign(reinterpret_cast<char*>(bytes->data()), bytes->size());
      }
      for (int fd : descriptors) close(fd);
      told.push_back(control::TypeOf(message));
    }
  }
  // A heartbeat, answered by `claims`, each of half the device. Whether the member wants the next
  // at once.
  bool WantsAnother(const Claims& claims, bool is_parked = false) {
    ++beat_;
    Beat();
    EXPECT_EQ(Sent(), std::vector<control::Type>{control::Type::kPoolReport});
    Json grants = Json::array();
    for (const auto& [name, epoch] : claims)
      grants.push_back({{"claim", name},
                        {"epoch", std::to_string(epoch)},
                        {"devices", {0}},
                        {"memory_bytes", std::to_string(kGib / 2)},
                        {"seats", 1},
                        {"parked", is_parked},
                        {"hold_ms", "86400000"}});
    Json answer = {{"term", "1"}, {"number", "1"}, {"grants", grants}, {"pool", "pool"}};
    answer["key"] = HexOf(PublicHalf(key_));
    Answer(answer.dump());
    std::vector<control::Type> told = Sent();
    EXPECT_TRUE(told.empty() || told == std::vector<control::Type>{control::Type::kPoolChanged});
    return !told.empty();
  }

  std::string folder_;
  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  int listener_ = -1, control_ = -1;
  uint64_t beat_ = 0;
  Closer closer_;
  std::string report_;
  std::vector<std::string>
      parkings_;  // "-claim": it leaves its devices; "+claim": it has them again
  const LeaseSecretKey key_ = NewLeaseKey();
  std::unique_ptr<PoolMember> member_;
};

TEST_F(PoolMemberTest, TakesAClaimOffItsDevicesAndBack) {
  WantsAnother({{"a", 1}});
  WantsAnother({{"a", 1}}, true);
  EXPECT_EQ(parkings_, std::vector<std::string>{"-a"});
  member_->FinishParking("a", "");
  Sent();
  WantsAnother({{"a", 1}}, true);
  EXPECT_EQ(parkings_.size(), 1u);
  WantsAnother({{"a", 1}});
  EXPECT_EQ(parkings_, (std::vector<std::string>{"-a", "+a"}));
}

TEST_F(PoolMemberTest, ReportsAtOnceWhatAnAnswerChanged) {
  EXPECT_FALSE(WantsAnother({}));
  EXPECT_TRUE(WantsAnother({{"a", 1}, {"b", 1}})) << "two came";
  EXPECT_FALSE(WantsAnother({{"a", 1}, {"b", 1}})) << "both stay";
  EXPECT_TRUE(WantsAnother({{"a", 1}})) << "one went";
}

TEST_F(PoolMemberTest, ReportsAtOnceWhenAsManyCameAsWent) {
  EXPECT_TRUE(WantsAnother({{"a", 1}, {"b", 1}}));
  EXPECT_TRUE(WantsAnother({{"a", 1}, {"c", 1}})) << "b went, c came";
  EXPECT_FALSE(WantsAnother({{"a", 1}, {"c", 1}}));
}

TEST_F(PoolMemberTest, ReportsAtOnceWhenAClaimHasANewEpoch) {
  EXPECT_TRUE(WantsAnother({{"a", 1}}));
  EXPECT_TRUE(WantsAnother({{"a", 2}})) << "the old one has ended";
  EXPECT_TRUE(WantsAnother({{"a", 2}})) << "the new one is held";
  EXPECT_FALSE(WantsAnother({{"a", 2}}));
}

TEST_F(PoolMemberTest, APoolThatProposesWhatIsRefusedDoesNotMakeItReportAllTheTime) {
  const Claims too_much = {{"a", 1}, {"b", 1}, {"c", 1}};
  EXPECT_TRUE(WantsAnother(too_much)) << "two came, one was refused";
  auto start = Clock::now();
  int wanted = 0;
  for (int i = 0; i < 200; ++i) wanted += WantsAnother(too_much) ? 1 : 0;
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start).count();
  EXPECT_LE(wanted, seconds + 1);
}

// Which leases it has seen, a server forgets when it restarts.
TEST_F(PoolMemberTest, TakesNoLeaseThatWasMadeForAnEarlierStart) {
  WantsAnother({{"a", 1}});
  uint64_t instance = std::stoull(Json::parse(report_)["incarnation"].get<std::string>());
  const auto now = static_cast<int64_t>(time(nullptr));
  auto admitted = [&](uint64_t of, const std::string& id) {
    return member_->Admit(SignLease({"pool", "a", "host", 1, of, id, now, now + 60}, key_))
        .status();
  };
  const char* const other =
      "the lease is for another start of this host's server; ask the pool again";
  EXPECT_EQ(admitted(instance - 1, "1").message(), other);
  EXPECT_TRUE(admitted(instance, "1").ok()) << admitted(instance, "1").message();
  EXPECT_EQ(admitted(instance, "1").message(),
            "the lease has been shown before: it opens one session");
}

}  // namespace
}  // namespace farcall::server
