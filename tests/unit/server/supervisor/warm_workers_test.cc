// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/processes/warm_workers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/worker/warm_worker.h"

namespace farcall::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The test is the workers: `ends` are theirs.
class WarmWorkersTest : public ::testing::Test {
 protected:
  WarmWorkers Make(uint32_t wanted) {
    return WarmWorkers(wanted, -1,
                       {[this](bool initialises) { return Start(initialises); },
                        [this](const WarmWorker& warm) { ended_ += End(warm); },
                        [this](const std::string& line) { notes_.push_back(line); }});
  }
  ~WarmWorkersTest() override {
    for (const auto& [control, end] : ends_) close(end);
  }

  Result<WarmWorker> Start(bool initialises) {
    ++started_;
    initialises_ = initialises;
    if (!why_not_.empty()) return Status(Code::kUnavailable, why_not_);
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ends_[ends[0]] = ends[1];
    WarmWorker warm;
    warm.process.control = ends[0];
    last_ = ends[0];
    return warm;
  }
  int End(const WarmWorker& warm) {
    close(warm.process.control);
    close(ends_.at(warm.process.control));
    ends_.erase(warm.process.control);
    return 1;
  }
  void Say(int control, const std::string& why) {
    ASSERT_TRUE(control::Send(ends_.at(control), control::ProbeReport{.why = why}).ok());
  }

  std::map<int, int> ends_;
  std::vector<std::string> notes_;
  std::string why_not_;
  int started_ = 0, ended_ = 0, last_ = -1;
  bool initialises_ = false;
  Clock::time_point now_ = Clock::now();
};

TEST_F(WarmWorkersTest, KeepsSoManyAndStartsAnotherForOneThatIsTaken) {
  WarmWorkers warm = Make(2);
  EXPECT_EQ(warm.Tick(now_, 1000), 0) << "one at a time, and the next at once";
  EXPECT_FALSE(warm.Take(now_)) << "it has not said that it is ready";
  Say(last_, "");
  EXPECT_TRUE(warm.OnReadable(last_, now_));
  const int first = last_;
  EXPECT_EQ(warm.Tick(now_, 1000), 1000);
  EXPECT_EQ(warm.Tick(now_, 1000), 1000);
  EXPECT_EQ(started_, 2);
  std::optional<WarmWorker> taken = warm.Take(now_);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->process.control, first);
  EXPECT_FALSE(warm.OnReadable(first, now_)) << "it is a session's";
  EXPECT_LE(warm.Tick(now_, 1000), 21) << "the session that opens comes first";
  EXPECT_EQ(started_, 2);
  EXPECT_EQ(warm.Tick(now_ + milliseconds(21), 1000), 1000);
  EXPECT_EQ(started_, 3);
  ended_ += End(*taken);
  warm.Stop();
  EXPECT_EQ(ended_, 3);
  warm.Tick(now_ + seconds(600), 1000);
  EXPECT_EQ(started_, 3) << "none is wanted any more";
}

TEST_F(WarmWorkersTest, OneThatEndsIsNotTakenAndTheNextWaits) {
  WarmWorkers warm = Make(1);
  warm.Tick(now_, 1000);
  Say(last_, "");
  warm.OnReadable(last_, now_);
  shutdown(ends_.at(last_), SHUT_RDWR);
  EXPECT_FALSE(warm.Take(now_));
  EXPECT_TRUE(warm.OnReadable(last_, now_));
  EXPECT_EQ(ended_, 1);
  warm.Tick(now_ + seconds(59), 1000);
  EXPECT_EQ(started_, 1);
  warm.Tick(now_ + seconds(60), 1000);
  EXPECT_EQ(started_, 2);
  EXPECT_EQ(notes_.size(), 1u);
}

TEST_F(WarmWorkersTest, AFailureThatGoesOnIsNotedOnce) {
  WarmWorkers warm = Make(3);
  why_not_ = "no processes left";
  for (int minute = 0; minute < 5; ++minute) warm.Tick(now_ + seconds(60 * minute), 1000);
  EXPECT_EQ(started_, 5);
  EXPECT_EQ(notes_, std::vector<std::string>{
                        "no worker is started ahead of its session for a minute: no processes "
                        "left"});
}

// Such a worker could not be walled in as a whole.
TEST_F(WarmWorkersTest, ALibraryThatStartsThreadsIsOnlyLoadedAndThenLeftAlone) {
  WarmWorkers warm = Make(1);
  warm.Tick(now_, 1000);
  EXPECT_TRUE(initialises_);
  Say(last_, kHasThreads);
  warm.OnReadable(last_, now_);
  warm.Tick(now_, 1000);
  EXPECT_FALSE(initialises_);
  Say(last_, kHasThreads);
  warm.OnReadable(last_, now_);
  EXPECT_EQ(ended_, 2);
  warm.Tick(now_ + seconds(600), 1000);
  EXPECT_EQ(started_, 2);
}

TEST_F(WarmWorkersTest, OneEndsToMakeRoom) {
  WarmWorkers warm = Make(1);
  EXPECT_FALSE(warm.EndOne(now_));
  warm.Tick(now_, 1000);
  EXPECT_TRUE(warm.EndOne(now_));
  EXPECT_EQ(ended_, 1);
  warm.Tick(now_, 1000);
  EXPECT_EQ(started_, 1) << "what it held is wanted by others";
}

}  // namespace
}  // namespace farcall::server
