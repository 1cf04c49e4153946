// SPDX-License-Identifier: Apache-2.0
// What is told of sessions, without a supervisor.
#include "server/supervisor/sessions/status_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/server/supervisor/sessions/session_parts_case.h"

namespace farcall::server {
namespace {

using Json = nlohmann::json;

class StatusReportTest : public testing::Test {
 protected:
  StatusReportTest() {
    charges_.ledger().Open("run 1", 0, 1000);
    EXPECT_TRUE(time_.Join("run 1", 10, {.share_milli = 300}, {0}, 0).ok());
    charges_.Join(10, "run 1");
    sessions_.Add(SessionOf(11, "run 1"));
    sessions_.Add(SessionOf(10, "run 1"));
  }
  static MemoryCharges::Hooks ChargeHooks() {
    MemoryCharges::Hooks hooks;
    hooks.send = [](int, const ChargeMessage&) { return true; };
    hooks.room = [](int, const control::Charge&, std::string*) {
      return SwapScheduler::Room::kThere;
    };
    hooks.withdraw = [](int) {};
    hooks.expect = [](int, int) {};
    hooks.overhead_bytes = [](const std::string&, int) -> uint64_t { return 0; };
    hooks.charged = [](int, uint64_t) {};
    hooks.refused = [](int, const std::string&, uint64_t) {};
    return hooks;
  }

  ServeOptions options_;
  ProbedDevices devices_ = DevicesOf(1);
  MemoryCharges charges_{ChargeHooks()};
  SessionTable sessions_;
  SessionPlacement placement_{options_, devices_, sessions_};
  TimeSharing time_{
      1,
      {},
      {[](int, const LeaseMessage&) {}, [](int) {}, [](const std::string&, quota::Priority) {}}};
  NetScheduler net_{0, [](int, const NetMessage&) {}};
  MemorySwapping swap_{std::nullopt, {}, {}};
  Closer closer_;
  DriverMemory driver_memory_{devices_, true, sessions_, closer_, -1, {}};
  StatusReport report_{
      {options_, devices_, sessions_, placement_, charges_, time_, net_, swap_, driver_memory_}};
};

TEST_F(StatusReportTest, ListsAVgpusSessionsInOrderWithWhatTheyHold) {
  charges_.OnMessage(10, control::Charge{.id = 1, .device = 0, .bytes = 600}, 0);
  charges_.OnMessage(10, control::Unspent{.device = 0, .bytes = 100}, 0);
  const Json status = report_.OfServer({Clock::now(), true, 12});
  EXPECT_TRUE(status["draining"]);
  EXPECT_EQ(status["sessions_started"], 12);
  EXPECT_EQ(status["devices"][0]["memory_charged_bytes"], 600);
  ASSERT_EQ(status["vgpus"].size(), 1u);
  const Json& vgpu = status["vgpus"][0];
  EXPECT_EQ(vgpu["owner"], "ada@lab");
  EXPECT_EQ(vgpu["devices"][0]["charged_bytes"], 600);
  EXPECT_EQ(vgpu["devices"][0]["used_bytes"], 500);
  EXPECT_EQ(vgpu["devices"][0]["quota_bytes"], 1000);
  EXPECT_EQ(vgpu["sessions"][0]["number"], 10);
  EXPECT_EQ(vgpu["sessions"][1]["number"], 11);
  EXPECT_EQ(report_.VgpuById(vgpu["id"].get<std::string>()), "run 1");
  EXPECT_EQ(report_.VgpuById("run 1"), "") << "its own name is nobody's to say";
}

TEST_F(StatusReportTest, ACertificateSaysWhoseItIs) {
  sessions_.At(10).arrival.identity = "CN=eve\n";
  const Json status = report_.OfServer({Clock::now(), false, 0});
  EXPECT_EQ(status["vgpus"][0]["owner"], "CN=eve\\n");
  const Json fields = report_.AuditFields(sessions_.At(10));
  EXPECT_EQ(fields["certificate"], "CN=eve\\n");
  EXPECT_EQ(fields["memory_bytes"], Json::array({1000}));
  EXPECT_FALSE(report_.AuditFields(sessions_.At(11)).contains("certificate"));
}

TEST(PublicId, HidesTokensOnly) {
  EXPECT_EQ(PublicId("session 7"), "session-7");
  EXPECT_EQ(PublicId("claim c-1"), "c-1");
  const std::string hidden = PublicId("run secret");
  EXPECT_EQ(hidden.rfind("vgpu-", 0), 0u);
  EXPECT_EQ(hidden.find("secret"), std::string::npos);
  EXPECT_NE(hidden, PublicId("run other"));
}

TEST(JsonText, TakesAnyBytes) {
  EXPECT_EQ(JsonText(Json{{"name", "a\xff"}}), "{\"name\":\"a\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace farcall::server
