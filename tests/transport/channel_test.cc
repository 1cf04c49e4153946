// SPDX-License-Identifier: Apache-2.0
// What every transport's byte stream promises.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/transport/link_harness.h"
#include "transport/tcp/tcp_channel.h"

namespace farcall::test {
namespace {

class ChannelTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Listener>> listener = Listen(FreshUrl(GetParam()));
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    listener_ = std::move(*listener);
    Result<std::unique_ptr<Channel>> dialled = Dial(listener_->Url(), In(kLong));
    ASSERT_TRUE(dialled.ok()) << dialled.status().message();
    a_ = std::move(*dialled);
    Result<std::unique_ptr<Channel>> accepted = listener_->Accept(In(kLong));
    ASSERT_TRUE(accepted.ok()) << accepted.status().message();
    b_ = std::move(*accepted);
  }

  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Channel> a_, b_;
};

TEST_P(ChannelTest, CarriesBytesInOrderBothWaysAtOnce) {
  std::vector<std::byte> up = Pattern(8u << 20, 1), down = Pattern(8u << 20, 2);
  std::vector<std::byte> up_got(up.size()), down_got(down.size());
  std::thread send_up([&] { EXPECT_TRUE(SendAll(*a_, up, In(kLong)).ok()); });
  std::thread send_down([&] { EXPECT_TRUE(SendAll(*b_, down, In(kLong)).ok()); });
  std::thread receive_up([&] { EXPECT_TRUE(ReceiveAll(*b_, up_got, In(kLong)).ok()); });
  EXPECT_TRUE(ReceiveAll(*a_, down_got, In(kLong)).ok());
  send_up.join();
  send_down.join();
  receive_up.join();
  EXPECT_EQ(up, up_got);
  EXPECT_EQ(down, down_got);
}

TEST_P(ChannelTest, GathersPartsInOrder) {
  std::vector<std::byte> first = Pattern(100, 1), second = Pattern(5000, 2);
  std::span<const std::byte> parts[] = {first, {}, second};
  Result<size_t> sent = a_->TrySend(parts);
  ASSERT_TRUE(sent.ok());
  ASSERT_EQ(*sent, 5100u);
  std::vector<std::byte> got(5100);
  ASSERT_TRUE(ReceiveAll(*b_, got, In(kLong)).ok());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), got.begin()));
  EXPECT_TRUE(std::equal(second.begin(), second.end(), got.begin() + 100));
}

TEST_P(ChannelTest, TakesABoundedAmountThatNobodyReads) {
  std::vector<std::byte> bytes(1u << 20);
  size_t total = 0;
  for (int i = 0; i < 64; ++i) {
    std::span<const std::byte> part(bytes);
    Result<size_t> sent = a_->TrySend({&part, 1});
    ASSERT_TRUE(sent.ok());
    total += *sent;
    if (*sent == 0) break;
  }
  EXPECT_GT(total, 0u);
  EXPECT_LT(total, 64u << 20);
  EXPECT_FALSE(a_->WaitWritable(Clock::now()));
}

TEST_P(ChannelTest, SaysNothingIsThereAndTimesOut) {
  std::byte byte;
  Result<size_t> got = a_->TryReceive({&byte, 1});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(*got, 0u);
  EXPECT_FALSE(a_->WaitReadable(In(5)));
  EXPECT_FALSE(a_->WaitReadable(Clock::time_point::min()));  // does not wait
  EXPECT_EQ(ReceiveAll(*a_, {&byte, 1}, In(5)).code(), Code::kTimeout);
  EXPECT_TRUE(a_->WaitWritable(In(kLong)));
}

TEST_P(ChannelTest, WakesAReaderByDescriptor) {
  int wake = eventfd(0, EFD_CLOEXEC);
  std::thread waker([&] { eventfd_write(wake, 1); });
  EXPECT_FALSE(a_->WaitReadable(In(kLong), wake));
  waker.join();
  close(wake);
}

TEST_P(ChannelTest, DeliversWhatWasSentBeforeTheEnd) {
  std::vector<std::byte> bytes = Pattern(1000, 3), got(1000);
  ASSERT_TRUE(SendAll(*a_, bytes, In(kLong)).ok());
  a_.reset();
  ASSERT_TRUE(ReceiveAll(*b_, got, In(kLong)).ok());
  EXPECT_EQ(bytes, got);
  std::byte byte;
  EXPECT_EQ(ReceiveAll(*b_, {&byte, 1}, In(kLong)).code(), Code::kDisconnected);
}

TEST_P(ChannelTest, DeliversWhatWasSentBeforeTheEndToWhoLooksLater) {
  std::vector<std::byte> bytes = Pattern(100'000, 3), got(bytes.size());
  std::span<const std::byte> rest(bytes);
  ASSERT_TRUE(SendAll(*a_, rest.first(1000), In(kLong)).ok());
  ASSERT_TRUE(ReceiveAll(*b_, std::span(got).first(1000), In(kLong)).ok());
  EXPECT_FALSE(a_->WaitReadable(In(50)));  // no exchange of the connection's own is under way
  ASSERT_TRUE(SendAll(*a_, rest.subspan(1000), In(kLong)).ok());
  a_.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // in which nobody looks
  ASSERT_TRUE(ReceiveAll(*b_, std::span(got).subspan(1000), In(kLong)).ok());
  EXPECT_EQ(bytes, got);
}

TEST_P(ChannelTest, CloseWakesWaitersOnBothSidesAndIsIdempotent) {
  std::thread here([&] { a_->WaitReadable(Clock::time_point::max()); });
  std::thread there([&] { b_->WaitReadable(Clock::time_point::max()); });
  a_->Close();
  a_->Close();
  here.join();
  there.join();
  std::byte byte{};
  std::span<const std::byte> part(&byte, 1);
  EXPECT_EQ(a_->TrySend({&part, 1}).status().code(), Code::kDisconnected);
  EXPECT_EQ(a_->TryReceive({&byte, 1}).status().code(), Code::kDisconnected);
}

TEST_P(ChannelTest, ListenerTimesOutAndCloses) {
  EXPECT_EQ(listener_->Accept(In(1)).status().code(), Code::kTimeout);
  std::thread closer([&] { listener_->Close(); });
  EXPECT_EQ(listener_->Accept(In(kLong)).status().code(), Code::kDisconnected);
  closer.join();
}

INSTANTIATE_TEST_SUITE_P(Transports, ChannelTest, testing::ValuesIn(TransportUrls()),
                         [](const auto& info) { return UrlTestName(info.param); });

TEST(DialTest, SaysThatNothingListens) {
  std::string url = (*Listen("tcp://127.0.0.1:0"))->Url();  // closed again: the port is free
  Status status = Dial(url, In(5000)).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find(url), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("nothing listens there"), std::string::npos) << status.message();
  EXPECT_EQ(Dial("inproc://nobody", In(1)).status().code(), Code::kUnavailable);
}

TEST(DialTest, SaysThatAHostCannotBeResolved) {
  Status status = Dial("tcp://no-such-host.invalid:1", In(5000)).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("no-such-host.invalid"), std::string::npos) << status.message();
}

TEST(DialTest, ListsWhatIsBuiltInForAnUnknownTransport) {
  for (const char* url : {"pigeon://h:1"}) {
    Status status = Dial(url, In(1)).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("have tcp://, inproc://, shm://, verbs://"), std::string::npos)
        << status.message();
    EXPECT_EQ(Listen(url).status().code(), Code::kUnsupported);
  }
}

// The system's own choice may pace by measured delays, which on a busy host are the scheduler's.
TEST(DialTest, ConnectionsInsideOneHostAreNotPaced) {
  for (const char* url : {"tcp://127.0.0.1:0", "tcp://[::1]:0"}) {
    Result<std::unique_ptr<Listener>> listener = Listen(url);
    if (!listener.ok() && std::string_view(url).find('[') != std::string_view::npos)
      continue;  // a host without IPv6
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    Result<std::unique_ptr<Channel>> dialled = Dial((*listener)->Url(), In(kLong));
    ASSERT_TRUE(dialled.ok()) << dialled.status().message();
    Result<std::unique_ptr<Channel>> accepted = (*listener)->Accept(In(kLong));
    ASSERT_TRUE(accepted.ok()) << accepted.status().message();
    for (const Channel* end : {dialled->get(), accepted->get()}) {
      char name[16] = {};
      socklen_t bytes = sizeof(name);
      ASSERT_EQ(getsockopt(end->Descriptor(), IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
      EXPECT_STREQ(name, "reno") << url;
    }
  }
}

TEST(DialTest, ACongestionControlIsOneThatThisUserMayChoose) {
  EXPECT_TRUE(CheckCongestionControl("reno").ok()) << "every kernel has it";
  Status refused = CheckCongestionControl("pigeon");
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.message().find("'pigeon' is no congestion control"), std::string::npos)
      << refused.message();
  EXPECT_NE(refused.message().find("reno"), std::string::npos) << refused.message();
  EXPECT_FALSE(CheckCongestionControl(std::string(100, 'x')).ok());
  EXPECT_TRUE(SetCongestionControl(-1, "pigeon").ok()) << "no TCP connection";
}

TEST(DialTest, AConnectionKnowsItsRoundTripAndItsCongestionControl) {
  Result<std::unique_ptr<Listener>> listener = Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  Result<std::unique_ptr<Channel>> dialled = Dial((*listener)->Url(), In(5000));
  ASSERT_TRUE(dialled.ok());
  ASSERT_TRUE((*dialled)->RoundTrip());
  EXPECT_GT((*dialled)->RoundTrip()->count(), 0);
  EXPECT_EQ(CongestionControlOf((*dialled)->Descriptor()), "reno");
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  EXPECT_FALSE(AdoptSocket(pair[0])->RoundTrip()) << "there is no network";
  close(pair[1]);
}

TEST(ListenTest, RefusesAPortInUse) {
  std::unique_ptr<Listener> first = std::move(*Listen("tcp://127.0.0.1:0"));
  Status status = Listen(first->Url()).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("in use"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace farcall::test
