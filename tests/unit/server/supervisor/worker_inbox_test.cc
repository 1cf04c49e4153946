// SPDX-License-Identifier: Apache-2.0
// What the supervisor takes of a worker's, and what it leaves where it is.
#include "server/supervisor/processes/worker_inbox.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <variant>

#include "server/control/control_socket.h"

namespace farcall::server {
namespace {

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class WorkerInboxTest : public testing::Test {
 protected:
  WorkerInboxTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0);
    EXPECT_EQ(pipe(pipe_), 0);
    file_ = memfd_create("inbox-test", MFD_CLOEXEC);
  }
  ~WorkerInboxTest() override {
    for (int fd : {ends_[0], ends_[1], pipe_[0], pipe_[1], file_, descriptor_})
      if (fd >= 0) close(fd);
  }
  Status Take() { return TakeFromWorker(ends_[0], &message_, &descriptor_); }
  // Refused each time it is looked at, and no descriptor of it is ours.
  void ExpectRefused() {
    const size_t open = OpenDescriptors();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(Take().code(), Code::kMalformed);
      EXPECT_EQ(descriptor_, -1);
    }
    EXPECT_EQ(OpenDescriptors(), open);
    control::Packet packet;
    std::vector<int> descriptors;
    EXPECT_TRUE(control::ReceivePacket(ends_[0], &packet, &descriptors).ok()) << "it is there yet";
    for (int fd : descriptors) close(fd);
  }

  int ends_[2] = {-1, -1}, pipe_[2] = {-1, -1}, file_ = -1;
  control::FromWorker message_;
  int descriptor_ = -1;
};

TEST_F(WorkerInboxTest, TakesMessagesOneByOneAndDoesNotWait) {
  EXPECT_EQ(Take().code(), Code::kTimeout);
  ASSERT_TRUE(control::Send(ends_[1], control::Refund{.device = 1, .bytes = 2}).ok());
  ASSERT_TRUE(control::Send(ends_[1], control::WantIn{}).ok());
  ASSERT_TRUE(Take().ok());
  EXPECT_EQ(std::get<control::Refund>(message_).bytes, 2u);
  ASSERT_TRUE(Take().ok());
  EXPECT_TRUE(std::holds_alternative<control::WantIn>(message_));
  EXPECT_EQ(Take().code(), Code::kTimeout);
  close(std::exchange(ends_[1], -1));
  EXPECT_EQ(Take().code(), Code::kDisconnected);
}

TEST_F(WorkerInboxTest, TakesMemoryThatIsShared) {
  ASSERT_TRUE(control::Send(ends_[1], control::Share{.id = 1}, {file_}).ok());
  ASSERT_TRUE(Take().ok());
  EXPECT_TRUE(std::holds_alternative<control::Share>(message_));
  EXPECT_GE(descriptor_, 0);
}

TEST_F(WorkerInboxTest, LeavesWhatIsSharedAndIsNoMemory) {
  ASSERT_TRUE(control::Send(ends_[1], control::Share{.id = 1}, {pipe_[0]}).ok());
  ExpectRefused();
}

TEST_F(WorkerInboxTest, LeavesMoreDescriptorsThanOne) {
  ASSERT_TRUE(control::Send(ends_[1], control::Share{.id = 1}, {file_, file_}).ok());
  ExpectRefused();
}

TEST_F(WorkerInboxTest, LeavesADescriptorThatTheMessageMayNotCarry) {
  ASSERT_TRUE(control::Send(ends_[1], control::Idle{}, {file_}).ok());
  ExpectRefused();
}

TEST_F(WorkerInboxTest, LeavesWhatIsNoMessageOfAWorkers) {
  ASSERT_TRUE(control::Send(ends_[1], control::Stop{.why = "said by the supervisor alone"}).ok());
  ExpectRefused();
  const std::vector<std::byte> too_long(control::kMaxMessageBytes + 1);
  ASSERT_TRUE(control::SendPacket(ends_[1], too_long).ok());
  EXPECT_EQ(Take().code(), Code::kMalformed);
}

}  // namespace
}  // namespace farcall::server
