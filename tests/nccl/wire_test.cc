// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "client-shim/nccl/net/bootstrap.h"
#include "client-shim/nccl/net/bootstrap_wire.h"

namespace farcall::nccl {
namespace {

TEST(BlobsTest, ComeBackAsTheyWent) {
  std::vector<std::string> blobs = {"one", "", std::string(1000, 'x')}, back;
  ASSERT_TRUE(SplitBlobs(JoinBlobs(blobs), 3, &back));
  EXPECT_EQ(back, blobs);
}

TEST(BlobsTest, LengthsThatLieAreRefused) {
  std::string joined = JoinBlobs({"one", "two"});
  std::vector<std::string> back;
  EXPECT_FALSE(SplitBlobs(joined, 3, &back));
  EXPECT_FALSE(SplitBlobs(joined, 1, &back));
  EXPECT_FALSE(SplitBlobs(joined.substr(0, joined.size() - 1), 2, &back));
  joined[3] = '\x7f';
  EXPECT_FALSE(SplitBlobs(joined, 2, &back));
}

std::vector<std::string> GatherAll(const ncclUniqueId& id, int ranks) {
  std::vector<std::string> seen(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int i = 0; i < ranks; ++i) {
    threads.emplace_back([&, i] {
      std::unique_ptr<Bootstrap> bootstrap;
      if (Bootstrap::Join(id, i, ranks, &bootstrap) != ncclSuccess) return;
      for (int round = 0; round < 3; ++round) {
        std::vector<std::string> all;
        if (bootstrap->AllGather(std::to_string(i * 10 + round), &all) != ncclSuccess) return;
        for (const std::string& blob : all) seen[static_cast<size_t>(i)] += blob + " ";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return seen;
}

TEST(MeetingTest, EachRankGetsWhatAllSaid) {
  ncclUniqueId id;
  ASSERT_EQ(OpenMeeting(&id), ncclSuccess);
  for (const std::string& seen : GatherAll(id, 3)) EXPECT_EQ(seen, "0 10 20 1 11 21 2 12 22 ");
}

int Stranger(const ncclUniqueId& unique_id) {
  MeetingId id;
  std::memcpy(&id, &unique_id, sizeof(id));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(id.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

void ExpectEnd(int socket) {
  char byte;
  EXPECT_LE(recv(socket, &byte, 1, 0), 0);
  close(socket);
}

TEST(MeetingTest, StrangersAreDroppedAndHarmNobody) {
  ncclUniqueId id;
  ASSERT_EQ(OpenMeeting(&id), ncclSuccess);
  Hello guess = {};
  guess.ranks = 2;
  const std::string no_secret(reinterpret_cast<const char*>(&guess), sizeof(guess));
  for (const std::string& bytes :
       {Message(MessageKind::kHello, 0, no_secret), Message(MessageKind::kHello, 0, "short"),
        Message(MessageKind::kBlob, 0, "blob"), Message(MessageKind::kBye, 0, ""),
        Message(static_cast<MessageKind>(99), 0, ""), std::string(12, '\xff')}) {
    int socket = Stranger(id);
    ASSERT_TRUE(SendAll(socket, bytes));
    ExpectEnd(socket);
  }
  int silent = Stranger(id);
  for (const std::string& seen : GatherAll(id, 2)) EXPECT_EQ(seen, "0 10 1 11 2 12 ");
  close(silent);
}

TEST(MeetingTest, ARankThatGoesWithoutAWordIsNoticed) {
  ncclUniqueId id;
  ASSERT_EQ(OpenMeeting(&id), ncclSuccess);
  std::unique_ptr<Bootstrap> stays;
  ASSERT_EQ(Bootstrap::Join(id, 0, 2, &stays), ncclSuccess);
  MeetingId meeting;
  std::memcpy(&meeting, &id, sizeof(meeting));
  Hello hello = {};
  std::memcpy(hello.secret, meeting.secret, kSecretBytes);
  hello.rank = 1;
  hello.ranks = 2;
  int dies = Stranger(id);
  const std::string payload(reinterpret_cast<const char*>(&hello), sizeof(hello));
  ASSERT_TRUE(SendAll(
      dies, Message(MessageKind::kHello, 0, payload) + Message(MessageKind::kBlob, 0, "b")));
  std::vector<std::string> all;
  ASSERT_EQ(stays->AllGather("a", &all), ncclSuccess);
  EXPECT_EQ(all, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(stays->AllPresent());
  close(dies);
  EXPECT_EQ(stays->AllGather("a", &all), ncclRemoteError);
  EXPECT_FALSE(stays->AllPresent());
}

}  // namespace
}  // namespace farcall::nccl
