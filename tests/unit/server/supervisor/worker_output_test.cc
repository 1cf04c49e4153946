// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/processes/worker_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <vector>

namespace farcall::server {
namespace {

class WorkerOutputTest : public testing::Test {
 protected:
  // What a worker's pipe becomes in the log.
  std::vector<std::string> LinesOf(const std::string& bytes) {
    {
      WorkerOutput output([this](const std::string& who, const std::string& line) {
        lines_.push_back(who + ": " + line);
      });
      Result<WorkerOutput::Pipe> pipe = output.Open("session 1");
      EXPECT_TRUE(pipe.ok());
      for (size_t at = 0; at < bytes.size();) {
        ssize_t wrote = write(pipe->end, bytes.data() + at, bytes.size() - at);
        if (wrote <= 0) break;
        at += static_cast<size_t>(wrote);
      }
      close(pipe->end);
    }
    return lines_;
  }
  std::vector<std::string> lines_;
};

TEST_F(WorkerOutputTest, EachLineNamesItsSessionAndIsEscaped) {
  EXPECT_EQ(LinesOf("one\n\x1b[31mtwo\rthree\nlast"),
            (std::vector<std::string>{"session 1: one", "session 1: \\x1b[31mtwo\\rthree",
                                      "session 1: last"}));
}

TEST_F(WorkerOutputTest, ALongLineIsCut) {
  std::vector<std::string> lines = LinesOf(std::string(1 << 20, 'x') + "\nnext\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "session 1: " + std::string(WorkerOutput::kMaxLineBytes, 'x') + "...");
  EXPECT_EQ(lines[1], "session 1: next");
}

TEST_F(WorkerOutputTest, OfAFloodTheFirstLinesAreWrittenAndTheRestCounted) {
  std::string flood;
  for (int i = 0; i < 200'000; ++i) flood += "line\n";
  std::vector<std::string> lines = LinesOf(flood);
  EXPECT_GE(lines.size(), static_cast<size_t>(WorkerOutput::kLinesAtOnce));
  EXPECT_LT(lines.size(), 20'000u);
  EXPECT_NE(lines.back().find("lines of its standard error are left out"), std::string::npos)
      << lines.back();
}

TEST_F(WorkerOutputTest, WhatIsLeftOutIsToldOfWhileTheWorkerLives) {
  std::mutex mutex;
  std::condition_variable told;
  bool is_told = false;
  WorkerOutput output([&](const std::string&, const std::string& line) {
    std::lock_guard lock(mutex);
    is_told = is_told || line.find("are left out") != std::string::npos;
    told.notify_all();
  });
  Result<WorkerOutput::Pipe> pipe = output.Open("session 1");
  ASSERT_TRUE(pipe.ok());
  std::string flood;
  for (double i = 0; i < WorkerOutput::kLinesAtOnce + 100; ++i) flood += "line\n";
  ASSERT_EQ(write(pipe->end, flood.data(), flood.size()), static_cast<ssize_t>(flood.size()));
  std::unique_lock lock(mutex);
  EXPECT_TRUE(told.wait_for(lock, std::chrono::seconds(60), [&] { return is_told; }));
  close(pipe->end);
}

// Somebody else holds the other end, which a worker can pass on.
TEST_F(WorkerOutputTest, ItEndsWithItsWorkerWhoeverHasTheOtherEnd) {
  Result<WorkerOutput::Pipe> pipe = Status(Code::kInternal, "");
  {
    WorkerOutput output(
        [this](const std::string&, const std::string& line) { lines_.push_back(line); });
    pipe = output.Open("session 1");
    ASSERT_TRUE(pipe.ok());
    ASSERT_EQ(write(pipe->end, "last words", 10), 10);
    output.End(pipe->id);
    output.End(pipe->id);  // once more is nothing
  }
  EXPECT_EQ(lines_, std::vector<std::string>{"last words"});
  signal(SIGPIPE, SIG_IGN);
  EXPECT_LT(write(pipe->end, "more", 4), 0);
  close(pipe->end);
}

}  // namespace
}  // namespace farcall::server
