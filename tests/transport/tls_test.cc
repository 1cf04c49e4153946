// SPDX-License-Identifier: Apache-2.0
// TLS: who is believed, keys that change, records that were changed, and connections that go on in
// another process. What it promises as a channel: channel_test.cc and link_test.cc.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/transport/link_harness.h"
#include "tests/transport/tls_listener.h"
#include "transport/tls/identity.h"
#include "transport/tls/record_cipher.h"
#include "transport/tls/tls_channel.h"

namespace farcall::test {
namespace {

TlsFiles Trusting(const TestAuthority& authority, TlsFiles own = {}) {
  own.authorities = authority.folder + "/ca.pem";
  return own;
}

void ExpectCarries(Channel& from, Channel& to, size_t bytes) {
  const std::vector<std::byte> sent = Pattern(bytes, static_cast<uint32_t>(bytes));
  std::vector<std::byte> got(bytes);
  std::thread sender([&] { EXPECT_TRUE(SendAll(from, sent, In(kLong)).ok()); });
  const Status received = ReceiveAll(to, got, In(kLong));
  sender.join();
  EXPECT_TRUE(received.ok()) << received.message();
  EXPECT_EQ(sent, got);
}

TEST(TlsHandshakeTest, BelievesAServerThatTheAuthoritySigned) {
  TestAuthority authority;
  TlsEnds ends = ShakeHands(Trusting(authority), authority.Issue("server", "127.0.0.1"));
  ASSERT_TRUE(ends.client_status.ok()) << ends.client_status.message();
  ASSERT_TRUE(ends.server_status.ok()) << ends.server_status.message();
  EXPECT_EQ(ends.client_identity, "");
  ExpectCarries(*ends.client, *ends.server, 1);
  ExpectCarries(*ends.server, *ends.client, 3u << 20);
}

TEST(TlsHandshakeTest, RefusesAServerOfAnotherAuthority) {
  TestAuthority authority, other("another authority");
  TlsEnds ends = ShakeHands(Trusting(other), authority.Issue("server", "127.0.0.1"));
  EXPECT_EQ(ends.client_status.code(), Code::kRefused);
  EXPECT_NE(ends.client_status.message().find("certificate"), std::string::npos)
      << ends.client_status.message();
  EXPECT_FALSE(ends.server_status.ok());
}

TEST(TlsHandshakeTest, RefusesACertificateOfAnotherHost) {
  TestAuthority authority;
  for (const char* host : {"gpu.example", "10.1.2.3"}) {
    TlsEnds ends = ShakeHands(Trusting(authority), authority.Issue("server", host));
    EXPECT_EQ(ends.client_status.code(), Code::kRefused) << host;
    TlsEnds right = ShakeHands(Trusting(authority), authority.Issue("server", host), host);
    EXPECT_TRUE(right.client_status.ok()) << right.client_status.message();
  }
}

TEST(TlsHandshakeTest, RefusesACertificateThatHasExpired) {
  TestAuthority authority;
  TlsEnds ends =
      ShakeHands(Trusting(authority), authority.Issue("server", "127.0.0.1", "", /*days=*/0));
  EXPECT_EQ(ends.client_status.code(), Code::kRefused);
  EXPECT_NE(ends.client_status.message().find("expired"), std::string::npos)
      << ends.client_status.message();
}

TEST(TlsHandshakeTest, AServerWithAuthoritiesWantsACertificateAndKnowsWhoseItIs) {
  TestAuthority authority, other("another authority");
  const TlsFiles server = Trusting(authority, authority.Issue("server", "127.0.0.1"));
  TlsEnds ends =
      ShakeHands(Trusting(authority, authority.Issue("client", "", "farcall:team-a")), server);
  ASSERT_TRUE(ends.server_status.ok()) << ends.server_status.message();
  EXPECT_EQ(ends.client_identity, "farcall:team-a");
  ends = ShakeHands(Trusting(authority, authority.Issue("by-name", "")), server);
  EXPECT_EQ(ends.client_identity, "by-name");
  for (size_t bytes : {kMaxIdentityBytes, kMaxIdentityBytes + 1}) {  // none is known by half a name
    const std::string uri = "u:" + std::string(bytes - 2, 'n');
    ends = ShakeHands(Trusting(authority, authority.Issue("long", "", uri)), server);
    EXPECT_TRUE(ends.server_status.ok()) << ends.server_status.message();
    EXPECT_EQ(ends.client_identity, bytes == kMaxIdentityBytes ? uri : "");
  }
  EXPECT_EQ(ShakeHands(Trusting(authority), server).server_status.code(), Code::kMalformed);
  ends = ShakeHands(Trusting(authority, other.Issue("client", "", "farcall:team-a")), server);
  EXPECT_EQ(ends.server_status.code(), Code::kRefused);
}

TEST(TlsHandshakeTest, SaysThatAFileCannotBeUsed) {
  TestAuthority authority;
  TlsFiles files = authority.Issue("server", "127.0.0.1");
  files.key = authority.folder + "/ca.pem";
  Status status = TlsContext::Make(TlsContext::Side::kServer, files).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find(files.key), std::string::npos) << status.message();
  EXPECT_EQ(TlsContext::Make(TlsContext::Side::kServer, {}).status().code(), Code::kInvalid);
  const TlsFiles nowhere{
      .certificate = "", .key = "", .authorities = "/no/such/file", .revoked = ""};
  EXPECT_EQ(TlsContext::Make(TlsContext::Side::kClient, nowhere).status().code(), Code::kInvalid);
}

// What a plain peer and a flood say to a handshake.
TEST(TlsHandshakeTest, EndsForAPeerThatSpeaksSomethingElse) {
  TestAuthority authority;
  Result<std::shared_ptr<TlsContext>> context =
      TlsContext::Make(TlsContext::Side::kServer, authority.Issue("server", "127.0.0.1"));
  ASSERT_TRUE(context.ok());
  for (const std::string& said :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(64, '\0'),
        std::string("\x16\x03\x01\xff\xff", 5) + std::string(70000, 'x')}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    std::unique_ptr<Channel> here = AdoptSocket(ends[0]), there = AdoptSocket(ends[1]);
    std::thread sender([&] { (void)SendAll(*there, std::as_bytes(std::span(said)), In(2000)); });
    TlsHandshake handshake(*context, *here);
    Result<TlsHandshake::Progress> step = handshake.Step();
    while (step.ok() && here->WaitReadable(In(1000))) step = handshake.Step();
    EXPECT_EQ(step.status().code(), Code::kMalformed) << said.substr(0, 4);
    here.reset();
    sender.join();
  }
}

// Records made by hand on one side, with the keys of the other.
class TlsRecordTest : public testing::Test {
 protected:
  void SetUp() override {
    TestAuthority authority;
    ends_ = ShakeHands(Trusting(authority), authority.Issue("server", "127.0.0.1"));
    ASSERT_TRUE(ends_.client_status.ok()) << ends_.client_status.message();
    cipher_ = std::move(*RecordCipher::Make(ends_.client_keys.write, /*seals=*/true));
  }

  // Writes past the client's channel.
  void Send(TlsContent type, std::vector<std::byte> content, size_t flipped = ~size_t{0}) {
    std::vector<std::byte> record(content.size() + kTlsOverheadBytes);
    const std::span<const std::byte> part = content;
    Result<size_t> sealed = cipher_->Seal(type, {&part, 1}, record.data());
    ASSERT_TRUE(sealed.ok());
    ASSERT_EQ(*sealed, record.size());
    if (flipped < record.size()) record[flipped] ^= std::byte{1};
    SendRaw(record);
  }
  void SendRaw(const std::vector<std::byte>& bytes) {
    ASSERT_EQ(send(ends_.client->Descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  Status Receive(size_t bytes) {
    std::vector<std::byte> got(bytes);
    return ReceiveAll(*ends_.server, got, In(kLong));
  }

  TlsEnds ends_;
  std::unique_ptr<RecordCipher> cipher_;
};

TEST_F(TlsRecordTest, TakesRecordsOfEachSize) {
  for (size_t bytes : {size_t{1}, size_t{100}, kMaxTlsPlainBytes - 1, kMaxTlsPlainBytes}) {
    Send(TlsContent::kData, Pattern(bytes, 1));
    EXPECT_TRUE(Receive(bytes).ok()) << bytes;
  }
}

TEST_F(TlsRecordTest, EndsAtAnyByteThatWasChanged) {
  for (size_t at : {size_t{0}, size_t{3}, size_t{5}, size_t{20}, size_t{30}}) {
    SetUp();
    Send(TlsContent::kData, Pattern(20, 1), at);
    ends_.client->Close();
    EXPECT_EQ(Receive(20).code(), Code::kDisconnected) << at;
  }
}

TEST_F(TlsRecordTest, EndsAtARecordThatIsTooLong) {
  Send(TlsContent::kData, Pattern(kMaxTlsPlainBytes + 300, 1));
  EXPECT_EQ(Receive(1).code(), Code::kDisconnected);
}

TEST_F(TlsRecordTest, FollowsKeysThatChangeAndAnswersWithNewOnes) {
  for (int i = 0; i < 3; ++i) {
    Send(TlsContent::kHandshake, {std::byte{24}, {}, {}, std::byte{1}, std::byte{1}});
    ASSERT_TRUE(cipher_->Update().ok());
    Send(TlsContent::kData, Pattern(100, 1));
    EXPECT_TRUE(Receive(100).ok());
    ExpectCarries(*ends_.server, *ends_.client, 1000);  // sealed by a new key
  }
}

TEST_F(TlsRecordTest, EndsAfterAFloodOfNewKeys) {
  for (int i = 0; i < 100; ++i) {
    Send(TlsContent::kHandshake, {std::byte{24}, {}, {}, std::byte{1}, {}});
    ASSERT_TRUE(cipher_->Update().ok());
  }
  EXPECT_EQ(Receive(1).code(), Code::kDisconnected);
}

TEST_F(TlsRecordTest, EndsAfterAFloodOfEmptyRecords) {
  for (int i = 0; i < 100; ++i) Send(TlsContent::kData, {});
  EXPECT_EQ(Receive(1).code(), Code::kDisconnected);
}

TEST_F(TlsRecordTest, IgnoresTicketsAndRefusesOtherMessages) {
  std::vector<std::byte> ticket(4 + 200);
  ticket[0] = std::byte{4};
  ticket[3] = std::byte{200};
  Send(TlsContent::kHandshake, {ticket.begin(), ticket.begin() + 50});
  Send(TlsContent::kHandshake, {ticket.begin() + 50, ticket.end()});
  Send(TlsContent::kData, Pattern(10, 1));
  EXPECT_TRUE(Receive(10).ok());
  Send(TlsContent::kHandshake, {std::byte{13}, {}, {}, {}});  // a request for a certificate
  EXPECT_EQ(Receive(1).code(), Code::kDisconnected);
}

TEST_F(TlsRecordTest, TakesAnAlertAsTheEnd) {
  Send(TlsContent::kAlert, {std::byte{1}, std::byte{0}});
  Status status = Receive(1);
  EXPECT_EQ(status.code(), Code::kDisconnected);
  EXPECT_NE(status.message().find("closed by the peer"), std::string::npos) << status.message();
}

TEST_F(TlsRecordTest, GoesOnInAnotherProcess) {
  ExpectCarries(*ends_.client, *ends_.server, 70000);
  ExpectCarries(*ends_.server, *ends_.client, 70000);
  Result<std::vector<std::byte>> state = ends_.server->HandOver();
  ASSERT_TRUE(state.ok()) << state.status().message();
  const int fd = dup(ends_.server->Descriptor());
  ends_.server->Abandon();
  Result<std::unique_ptr<Channel>> adopted = AdoptChannel(fd, *state);
  ASSERT_TRUE(adopted.ok()) << adopted.status().message();
  ends_.server = std::move(*adopted);
  ends_.server->ReadAhead();
  ExpectCarries(*ends_.client, *ends_.server, 3u << 20);
  ExpectCarries(*ends_.server, *ends_.client, 3u << 20);
}

TEST_F(TlsRecordTest, IsNotHandedOverWithBytesThatWereTaken) {
  ASSERT_TRUE(SendAll(*ends_.client, Pattern(100, 1), In(kLong)).ok());
  std::byte one;
  ASSERT_TRUE(ReceiveAll(*ends_.server, {&one, 1}, In(kLong)).ok());
  EXPECT_EQ(ends_.server->HandOver().status().code(), Code::kMalformed);
}

TEST(TlsKeysTest, RefusesWhatIsNotKeys) {
  TlsKeys keys;
  keys.read.secret = keys.write.secret = Pattern(32, 1);
  std::vector<std::byte> bytes = EncodeTlsKeys(keys);
  ASSERT_TRUE(DecodeTlsKeys(bytes).ok());
  for (size_t i = 0; i < bytes.size(); ++i)
    EXPECT_FALSE(DecodeTlsKeys(std::span(bytes).first(i)).ok()) << i;
  keys.write.secret.resize(31);
  EXPECT_FALSE(DecodeTlsKeys(EncodeTlsKeys(keys)).ok());
  keys.write.secret = Pattern(48, 1);
  EXPECT_FALSE(DecodeTlsKeys(EncodeTlsKeys(keys)).ok());
  keys.write.suite = TlsSuite::kAes256GcmSha384;
  EXPECT_TRUE(DecodeTlsKeys(EncodeTlsKeys(keys)).ok());
}

}  // namespace
}  // namespace farcall::test
