// SPDX-License-Identifier: Apache-2.0
// What a link promises while its connections hold.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/transport/link_harness.h"

namespace farcall::test {
namespace {

class LinkTest : public testing::TestWithParam<std::string> {
 protected:
  std::string Url() const { return FreshUrl(GetParam()); }
};

TEST_P(LinkTest, DeliversFramesOfEverySizeInOrderBothWays) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  std::thread down([&] {
    for (int i = 0; i < 2000; ++i)
      ASSERT_TRUE(pair.server->Send(static_cast<size_t>(i * 7) % 3000).ok());
  });
  for (int i = 0; i < 2000; ++i)
    ASSERT_TRUE(pair.client->Send(static_cast<size_t>(i * 131) % 20000).ok());
  ASSERT_TRUE(
      pair.client->Send(kMaxFrameBytes - sizeof(FrameHeader) - sizeof(RecordHeader) - 8).ok());
  down.join();
  ASSERT_TRUE(pair.server->recorder.Until([&] { return pair.server->recorder.frames == 2001; }));
  ASSERT_TRUE(pair.client->recorder.Until([&] { return pair.client->recorder.frames == 2000; }));
  EXPECT_EQ(pair.server->recorder.wrong_frames, 0u);
  EXPECT_EQ(pair.client->recorder.wrong_frames, 0u);
}

TEST_P(LinkTest, KeepsTheOrderInWhichManyThreadsSent) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  std::mutex order;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        std::lock_guard lock(order);
        ASSERT_TRUE(pair.client->Send(64).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(pair.server->recorder.Until([&] { return pair.server->recorder.frames == 4000; }));
  EXPECT_EQ(pair.server->recorder.wrong_frames, 0u);
}

TEST_P(LinkTest, DialsItsLanesAtOnce) {
  LinkOptions options;
  options.lanes = 4;
  Pair pair(Url(), options, options);
  ASSERT_TRUE(pair.ok());
  pair.faults->lanes_meet = 4;
  EXPECT_TRUE(pair.client->link->OpenLanes().ok());
  EXPECT_EQ(pair.faults->lanes_about, 4u);
}

TEST_P(LinkTest, AnswersFromTheThreadThatPumps) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  pair.server->recorder.OnEachFrame(
      [server = pair.server.get()](const FrameView&) { return server->Send(); });
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(pair.client->Send().ok());
  ASSERT_TRUE(pair.client->recorder.Until([&] { return pair.client->recorder.frames == 1000; }));
  EXPECT_EQ(pair.client->recorder.wrong_frames, 0u);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr size_t kLargeBytes = 24u << 20;  // instrumented copies crawl
#else
constexpr size_t kLargeBytes = 256u << 20;
#endif

TEST_P(LinkTest, MovesALargeTransferBothWaysAtOnce) {
  constexpr size_t kBytes = kLargeBytes;
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(pair.client->link->OpenLanes().ok());
  std::vector<std::byte> up = Pattern(kBytes, 1), down = Pattern(kBytes, 2);
  pair.server->recorder.Expect(7, kBytes);
  pair.client->recorder.Expect(8, kBytes);
  std::atomic<bool> done = false;
  ASSERT_TRUE(
      pair.server->link->SendTransfer(8, 0, down, Link::Retain::kOwned, [&] { done = true; }).ok());
  ASSERT_TRUE(pair.client->link->SendTransfer(7, 0, up, Link::Retain::kBorrowed).ok());
  // Borrowed: back only when all of it has landed.
  EXPECT_EQ(pair.server->recorder.chunk_bytes, kBytes);
  ASSERT_TRUE(
      pair.client->recorder.Until([&] { return pair.client->recorder.chunk_bytes == kBytes; }));
  ASSERT_TRUE(pair.client->recorder.Until([&] { return done.load(); }));
  EXPECT_TRUE(pair.server->recorder.Landed(7) == up);
  EXPECT_TRUE(pair.client->recorder.Landed(8) == down);
}

TEST_P(LinkTest, CapturesCopiedBytesAtTheCall) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(pair.client->link->OpenLanes().ok());
  std::vector<std::byte> bytes = Pattern(3'000'001, 5), expected = bytes;
  pair.server->recorder.Expect(1, bytes.size());
  ASSERT_TRUE(pair.client->link->SendTransfer(1, 0, bytes, Link::Retain::kCopied).ok());
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  EXPECT_EQ(pair.client->link->chunks_sent(), 3u);
  ASSERT_TRUE(pair.server->link->WaitChunks(3, In(kLong)).ok());
  EXPECT_TRUE(pair.server->recorder.Landed(1) == expected);
}

TEST_P(LinkTest, FramesNameTheChunksSentBeforeThem) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(pair.client->link->OpenLanes().ok());
  std::atomic<uint64_t> named = 0;
  pair.server->recorder.OnEachFrame([&, server = pair.server.get()](const FrameView& frame) {
    named = frame.header.chunks_sent;
    return server->link->WaitChunks(frame.header.chunks_sent, In(kLong));
  });
  std::vector<std::byte> bytes = Pattern(2u << 20, 6);
  for (uint64_t i = 1; i <= 20; ++i) {
    pair.server->recorder.Expect(i, bytes.size());
    ASSERT_TRUE(pair.client->link->SendTransfer(i, 0, bytes, Link::Retain::kCopied).ok());
    ASSERT_TRUE(pair.client->Send().ok());
    ASSERT_TRUE(pair.server->recorder.Until([&] { return named == 2 * i; })) << named;
    ASSERT_TRUE(pair.server->link->WaitChunks(2 * i, In(kLong)).ok());
    EXPECT_TRUE(pair.server->recorder.Landed(i) == bytes);
  }
}

TEST_P(LinkTest, BoundsTheClientsTailAndGoesOnWhenAcknowledged) {
  LinkOptions options;
  options.max_tail_bytes = 256u << 10;
  Pair pair(Url(), options, options);
  ASSERT_TRUE(pair.ok());
  size_t most = 0;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(pair.client->Send(3000).ok());
    most = std::max(most, pair.client->link->tail_bytes());
  }
  EXPECT_LE(most, options.max_tail_bytes + kBatchBytes);
  ASSERT_TRUE(pair.server->recorder.Until([&] { return pair.server->recorder.frames == 3000; }));
}

TEST_P(LinkTest, BoundsTheCopiesOfChunks) {
  LinkOptions options;
  options.max_chunk_tail_bytes = 2u << 20;
  Pair pair(Url(), options, options);
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(pair.client->link->OpenLanes().ok());
  std::vector<std::byte> bytes = Pattern(40u << 20, 9);
  pair.server->recorder.Expect(1, bytes.size());
  ASSERT_TRUE(pair.client->link->SendTransfer(1, 0, bytes, Link::Retain::kCopied).ok());
  ASSERT_TRUE(pair.server->link->WaitChunks(40, In(kLong)).ok());
  EXPECT_TRUE(pair.server->recorder.Landed(1) == bytes);
}

TEST_P(LinkTest, AServersLinkEndsForAClientThatNeverAcknowledges) {
  LinkOptions options;
  options.max_tail_bytes = 64u << 10;
  Recorder recorder;
  std::unique_ptr<Link> link = std::make_unique<Link>(recorder, options);
  std::unique_ptr<Listener> listener = std::move(*Listen(Url()));
  std::unique_ptr<Channel> silent = std::move(*Dial(listener->Url(), In(kLong)));
  link->AttachLog(std::move(*listener->Accept(In(kLong))), 0, 0);
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    std::unique_ptr<FrameBuffer> frame = link->TakeBuffer(4096);
    RecordHeader record;
    record.bytes = 4096;
    std::memcpy(frame->room().data(), &record, sizeof(record));
    frame->Commit(4096);
    status = link->SendFrame(std::move(frame));
  }
  EXPECT_EQ(status.code(), Code::kDisconnected);
  EXPECT_NE(status.message().find("acknowledges nothing"), std::string::npos) << status.message();
}

TEST_P(LinkTest, CloseTellsThePeerWhyAfterWhatWasQueued) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(pair.client->Send(2000).ok());
  pair.client->link->Close({Code::kQuotaExceeded, "device memory: asked 5, 4 free"});
  EXPECT_EQ(pair.client->recorder.closed, 1);
  ASSERT_TRUE(pair.server->recorder.Until([&] { return pair.server->recorder.closed == 1; }));
  EXPECT_EQ(pair.server->recorder.frames, 500u);
  EXPECT_EQ(pair.server->recorder.close_reason.code(), Code::kQuotaExceeded);
  EXPECT_EQ(pair.server->recorder.close_reason.message(), "device memory: asked 5, 4 free");
  EXPECT_EQ(pair.client->Send().code(), Code::kQuotaExceeded);
  EXPECT_EQ(pair.server->link->Pump(In(1000)).code(), Code::kQuotaExceeded);
}

TEST_P(LinkTest, CloseFreesABorrowedTransferThatCannotLand) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());  // the lanes are not open: the bytes go nowhere
  std::vector<std::byte> bytes = Pattern(1u << 20, 1);
  std::thread closer([&] { pair.client->link->Close({Code::kDisconnected, "over"}); });
  EXPECT_EQ(pair.client->link->SendTransfer(1, 0, bytes, Link::Retain::kBorrowed).code(),
            Code::kDisconnected);
  closer.join();
}

TEST_P(LinkTest, PumpStopsForTheWakeDescriptorAndTheDeadline) {
  LinkOptions options;
  options.heartbeat_ms = 100000;
  options.is_client = true;
  Recorder recorder;
  std::unique_ptr<Link> link = std::make_unique<Link>(recorder, options);
  int wake = eventfd(1, EFD_CLOEXEC);
  EXPECT_EQ(link->Pump(In(kLong), wake).code(), Code::kTimeout);  // not connected yet
  EXPECT_EQ(link->Pump(In(1)).code(), Code::kTimeout);
  std::unique_ptr<Listener> listener = std::move(*Listen(Url()));
  link->AttachLog(std::move(*Dial(listener->Url(), In(kLong))), 0, 0);
  EXPECT_EQ(link->Pump(In(kLong), wake).code(), Code::kTimeout);
  EXPECT_EQ(link->Pump(In(1)).code(), Code::kTimeout);
  EXPECT_EQ(link->Pump(Clock::time_point::min()).code(), Code::kTimeout);  // does not wait
  close(wake);
}

TEST_P(LinkTest, RefusesABorrowedTransferOnTheThreadThatPumps) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  std::vector<std::byte> bytes(100);
  std::atomic<int> code = -1;
  pair.server->recorder.OnEachFrame([&, server = pair.server.get()](const FrameView&) {
    code =
        static_cast<int>(server->link->SendTransfer(1, 0, bytes, Link::Retain::kBorrowed).code());
    return Status();
  });
  ASSERT_TRUE(pair.client->Send().ok());
  ASSERT_TRUE(pair.server->recorder.Until([&] { return code != -1; }));
  EXPECT_EQ(static_cast<Code>(code.load()), Code::kInvalid);
}

TEST_P(LinkTest, AFailedOnFrameClosesBothSidesWithItsReason) {
  Pair pair(Url());
  ASSERT_TRUE(pair.ok());
  pair.server->recorder.OnEachFrame(
      [](const FrameView&) { return Status(Code::kMalformed, "record 3: no such call 9"); });
  ASSERT_TRUE(pair.client->Send().ok());
  ASSERT_TRUE(pair.client->recorder.Until([&] { return pair.client->recorder.closed == 1; }));
  EXPECT_EQ(pair.client->recorder.close_reason.code(), Code::kMalformed);
  EXPECT_EQ(pair.client->recorder.close_reason.message(), "record 3: no such call 9");
}

INSTANTIATE_TEST_SUITE_P(Transports, LinkTest, testing::ValuesIn(TransportUrls()),
                         [](const auto& info) { return UrlTestName(info.param); });

}  // namespace
}  // namespace farcall::test
