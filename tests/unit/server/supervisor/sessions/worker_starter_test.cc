// SPDX-License-Identifier: Apache-2.0
// What a worker has on this machine, without a supervisor. Workers themselves: session.warm.
#include "server/supervisor/sessions/worker_starter.h"

#include <gtest/gtest.h>

#include "server/worker/warm_worker.h"
#include "tests/unit/server/supervisor/sessions/session_parts_case.h"

namespace farcall::server {
namespace {

ServeOptions OneUser() {
  ServeOptions options;
  options.worker_users = {700000, 1};
  options.warm_workers = 0;
  return options;
}

class WorkerStarterTest : public testing::Test {
 protected:
  const ServeOptions options_ = OneUser();
  ProbedDevices devices_ = DevicesOf(1);
  SessionTable sessions_;
  SessionPlacement placement_{options_, devices_, sessions_};
  WorkerPlaces places_{options_};
  Closer closer_;
  WorkerStarter starter_{options_, devices_, sessions_, placement_, places_, closer_, -1};
  Hello hello_;
};

TEST_F(WorkerStarterTest, ASessionWithoutAUserIsRefusedAndLeavesNothing) {
  ASSERT_TRUE(places_.users.Take("other").ok());
  auto session = SessionOf(1, "a");
  {
    Undo undo;
    EXPECT_EQ(starter_.Start(session.get(), {{}, hello_, false, {}}, &undo).code(),
              Code::kUnavailable);
  }
  EXPECT_FALSE(session->user.has_value());
  EXPECT_EQ(session->output, 0u);
  places_.users.GiveBack("other");
  EXPECT_TRUE(places_.users.Take("a").ok()) << "the refused session took none";
}

TEST_F(WorkerStarterTest, ItsUserIsFreeWhenItsProcessIsGone) {
  auto session = SessionOf(1, "a");
  Result<uid_t> user = places_.users.Take("a");
  ASSERT_TRUE(user.ok());
  session->user = *user;
  EXPECT_FALSE(places_.users.Take("b").ok());
  starter_.Release(*session);
  EXPECT_TRUE(places_.users.Take("b").ok());
}

TEST(WorkerStarter, NoneWaitsWhereSessionsNeedWorkersOfTheirOwn) {
  ServeOptions options;
  options.warm_workers = 3;
  EXPECT_EQ(WorkerStarter::WantedWarm(options), CanWarmUp() ? 3u : 0u);
  for (const char* mode : {"mps", "mig"}) {
    ServeOptions special = options;
    special.modes = *ParseModes(mode);
    EXPECT_EQ(WorkerStarter::WantedWarm(special), 0u) << mode;
  }
  options.trust_tenants = true;
  EXPECT_EQ(WorkerStarter::WantedWarm(options), 0u);
}

}  // namespace
}  // namespace farcall::server
