// SPDX-License-Identifier: Apache-2.0
// A worker's end of the control socket, before a supervisor that is slow to read.
#include "server/worker/connection/control_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <variant>

#include "server/control/control_socket.h"

namespace farcall::server {
namespace {

TEST(ControlClientTest, NoRefundIsLostWhileTheSupervisorDoesNotRead) {
  constexpr int kRefunds = 3000;  // far more than the socket holds
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  {
    ControlClient client(ends[0]);
    std::thread worker([&] {
      for (int i = 0; i < kRefunds; ++i) client.Refund(0, 1);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // lets the queue fill
    int refunds = 0;
    for (int i = 0; i < kRefunds; ++i) {
      control::FromWorker message;
      std::vector<int> descriptors;
      ASSERT_TRUE(control::Receive(ends[1], &message, &descriptors).ok());
      const auto* refund = std::get_if<control::Refund>(&message);
      refunds += refund != nullptr && refund->bytes == 1;
    }
    worker.join();
    EXPECT_EQ(refunds, kRefunds);
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace farcall::server
