// SPDX-License-Identifier: Apache-2.0
// Client and server of the handshake, and whoever stands between or in the place of one of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "proto/codec.h"
#include "proto/handshake/client_exchange.h"
#include "proto/handshake/server_exchange.h"

namespace farcall {
namespace {

using Packet = std::vector<std::byte>;

constexpr char kToken[] = "4f1b8a52c07e9d3366aa01f2b9c45d7e8091a2b3c4d5e6f70812233445566778";
constexpr char kSecrets[] = "a-secret-of-this-vgpu";

Hello SomeHello() {
  Hello hello;
  hello.vgpu = kSecrets;
  hello.lease = "v4.public.a-lease-of-the-pool";
  hello.claim = "c-17";
  hello.quota = {4ull << 30, 300, 500, 1, 1'000'000};
  hello.received_seq = 41;
  hello.received_chunks = 17;
  hello.program = "train.py";
  hello.environment = {{"CUDA_MODULE_LOADING", "LAZY"}};
  hello.device_windows = {{0x200000000000, 8ull << 40}};
  return hello;
}

struct Talk {
  explicit Talk(const ClientCredentials& credentials, bool needs_token = true)
      : server(needs_token, "9"),
        client(ClientExchange::Answer(server.greeting(), SomeHello(), credentials)) {}
  ServerExchange server;
  Result<ClientExchange> client;
};

std::vector<TokenVerifier> Known(std::initializer_list<const char*> tokens) {
  std::vector<TokenVerifier> known;
  for (const char* token : tokens) known.push_back(TokenKeys(token).verifier());
  return known;
}

Packet Answer(const AnswerKey& key, uint64_t seq = 7) {
  Welcome welcome;
  RandomBytes(welcome.session);
  welcome.received_seq = seq;
  return *SealWelcome(key, welcome);
}

bool Holds(const Packet& packet, std::span<const uint8_t> bytes) {
  auto* text = reinterpret_cast<const uint8_t*>(packet.data());
  return std::search(text, text + packet.size(), bytes.begin(), bytes.end()) !=
         text + packet.size();
}
bool Holds(const Packet& packet, std::string_view text) {
  return Holds(packet, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// Exchanges keys with both sides, so that it can read HELLO, and says it again with the same
// proofs.
class Middle {
 public:
  explicit Middle(const Packet& server) : server_(server) {
    Greeting own = *DecodeGreeting(BodyOf(server));
    server_share_ = own.share;
    own.share = key_.share();
    greeting_ = *MakePacket(HandshakeType::kGreeting, Encode(own));
  }
  const Packet& greeting() const { return greeting_; }

  Packet SayAgain(const Packet& hello, const std::function<void(Hello*)>& change) const {
    KeyShare client = ShareIn(hello);
    std::span<const std::byte> packet = hello;
    Packet plain = *Unseal(HelloSealKey(greeting_, client, *key_.SharedWith(client)),
                           packet.subspan(kHelloOpenBytes), packet.first(kHelloOpenBytes));
    Reader in(plain);
    Hello said = *DecodeHello(in.GetBytes());
    change(&said);
    const Packet fields = Encode(said);
    Builder out;
    out.PutBytes(fields.data(), fields.size());
    const size_t proofs = in.Get<uint64_t>();
    out.Put<uint64_t>(proofs);
    for (size_t i = 0; i < proofs; ++i) {
      std::span<const std::byte> proof = in.GetBytes();
      out.PutBytes(proof.data(), proof.size());
    }
    Packet body(sizeof(KeyShare) + out.bytes().size() + kSealBytes);
    std::memcpy(body.data(), key_.share().data(), sizeof(KeyShare));
    Packet again = *MakePacket(HandshakeType::kHello, body);
    Packet sealed = Seal(HelloSealKey(server_, key_.share(), *key_.SharedWith(server_share_)),
                         out.bytes(), std::span(again).first(kHelloOpenBytes));
    std::copy(sealed.begin(), sealed.end(), again.begin() + kHelloOpenBytes);
    return again;
  }
  AnswerKey AnswerTo(const Packet& hello, uint32_t credential) const {
    return DeriveKeys(greeting_, hello, *key_.SharedWith(ShareIn(hello)), {}, credential).answer;
  }

 private:
  static KeyShare ShareIn(const Packet& hello) {
    KeyShare share;
    std::memcpy(share.data(), hello.data() + sizeof(HandshakeHeader), share.size());
    return share;
  }

  ExchangeKey key_;
  Packet server_, greeting_;
  KeyShare server_share_{};
};

TEST(ExchangeTest, BothSidesKnowEachOtherAndTheSessionsKey) {
  Talk talk(ClientCredentials::OfToken(kToken));
  ASSERT_TRUE(talk.client.ok()) << talk.client.status().message();
  Result<ReceivedHello> heard = talk.server.Receive(talk.client->hello());
  ASSERT_TRUE(heard.ok()) << heard.status().message();
  EXPECT_EQ(heard->hello().program, "train.py");
  EXPECT_EQ(heard->hello().vgpu, kSecrets);
  const std::vector<TokenVerifier> known = Known({"another", kToken});
  std::optional<ReceivedHello::Accepted> accepted = heard->AcceptToken(known);
  ASSERT_TRUE(accepted);
  EXPECT_EQ(accepted->token, &known[1]);
  Result<Packet> body = talk.client->Open(Answer(accepted->keys.answer));
  ASSERT_TRUE(body.ok()) << body.status().message();
  EXPECT_EQ(DecodeWelcome(*body)->received_seq, 7u);
  EXPECT_TRUE(SameBytes(talk.client->session_key().bytes(), accepted->keys.session.bytes()));
}

TEST(ExchangeTest, OfSeveralTokensOneThatTheServerKnowsIsTaken) {
  ClientCredentials credentials;
  for (const char* token : {"first", kToken, "third"}) credentials.tokens.emplace_back(token);
  Talk talk(credentials);
  Result<ReceivedHello> heard = talk.server.Receive(talk.client->hello());
  const std::vector<TokenVerifier> known = Known({"third", kToken});
  std::optional<ReceivedHello::Accepted> accepted = heard->AcceptToken(known);
  ASSERT_TRUE(accepted);
  EXPECT_EQ(accepted->token, &known[1]);
  EXPECT_EQ(accepted->keys.answer.credential, 1u);
  EXPECT_TRUE(talk.client->Open(Answer(accepted->keys.answer)).ok());
}

TEST(ExchangeTest, AWrongTokenIsRefused) {
  Talk talk(ClientCredentials::OfToken("wrong"));
  Result<ReceivedHello> heard = talk.server.Receive(talk.client->hello());
  ASSERT_TRUE(heard.ok());
  EXPECT_FALSE(heard->AcceptToken(Known({kToken})));
  EXPECT_FALSE(heard->AcceptSession(SessionKey()));
}

// Whatever bit of the packet is another one: header, share, any field, any proof.
TEST(ExchangeTest, EachByteOfHelloCounts) {
  Talk talk(ClientCredentials::OfToken(kToken));
  const std::vector<TokenVerifier> known = Known({kToken});
  Packet hello = talk.client->hello();
  for (size_t i = 0; i < hello.size(); ++i) {
    for (int bit : {0, 7}) {
      hello[i] ^= std::byte{1} << bit;
      Result<ReceivedHello> heard = talk.server.Receive(hello);
      EXPECT_FALSE(heard.ok()) << "byte " << i;
      hello[i] ^= std::byte{1} << bit;
    }
  }
  for (size_t bytes = 0; bytes < hello.size(); ++bytes)
    EXPECT_FALSE(talk.server.Receive(std::span(hello).first(bytes)).ok()) << bytes;
  EXPECT_TRUE(talk.server.Receive(hello)->AcceptToken(known));
}

// Somebody in the middle who exchanges keys with both sides opens HELLO, but cannot say it again:
// the proof covers each field, and both sides' shares.
TEST(ExchangeTest, AFieldThatAnotherChangedIsRefused) {
  const std::vector<TokenVerifier> known = Known({kToken});
  std::vector<std::function<void(Hello*)>> changes = {
      [](Hello*) {},  // merely sealed again
      [](Hello* hello) { hello->role = LinkRole::kLane; },
      [](Hello* hello) { hello->lane = 1; },
      [](Hello* hello) { hello->session[3] = 1; },
      [](Hello* hello) { ++hello->received_seq; },
      [](Hello* hello) { ++hello->received_chunks; },
      [](Hello* hello) { hello->transports = 3; },
      [](Hello* hello) { hello->vgpu = "another"; },
      [](Hello* hello) { hello->quota.memory_bytes = 8ull << 30; },
      [](Hello* hello) { hello->quota.share_milli = 1000; },
      [](Hello* hello) { hello->quota.limit_milli = 1000; },
      [](Hello* hello) { hello->quota.priority = 0; },
      [](Hello* hello) { hello->quota.net_bytes_per_s = 0; },
      [](Hello* hello) { hello->pid = 1; },
      [](Hello* hello) { hello->user = "root"; },
      [](Hello* hello) { hello->host = "h"; },
      [](Hello* hello) { hello->environment.clear(); },
      [](Hello* hello) { hello->device_windows.clear(); },
      [](Hello* hello) { hello->features = 1; },
      [](Hello* hello) { hello->devices = 2; },
      [](Hello* hello) { hello->claim = "c-18"; },
      [](Hello* hello) { hello->lease = "v4.public.another"; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    const ServerExchange server(true, "9");
    Middle middle(server.greeting());
    Result<ClientExchange> client =
        ClientExchange::Answer(middle.greeting(), SomeHello(), ClientCredentials::OfToken(kToken));
    ASSERT_TRUE(client.ok());
    Packet again = middle.SayAgain(client->hello(), changes[i]);
    Result<ReceivedHello> heard = server.Receive(again);
    ASSERT_TRUE(heard.ok()) << heard.status().message();
    EXPECT_FALSE(heard->hello().credentials.empty());
    EXPECT_FALSE(heard->AcceptToken(known)) << i;
    // Nor can it answer its client, without the key by which servers prove themselves.
    for (uint32_t credential : {kNoCredential, 0u}) {
      Packet answer = Answer(middle.AnswerTo(client->hello(), credential));
      EXPECT_EQ(client->Open(answer).status().code(), Code::kRefused) << i;
    }
  }
}

TEST(ExchangeTest, ARecordedHelloIsRefusedByAnotherConnection) {
  Talk recorded(ClientCredentials::OfToken(kToken));
  const ServerExchange other(true, "9");
  EXPECT_FALSE(other.Receive(recorded.client->hello()).ok());
}

TEST(ExchangeTest, AServerThatKnowsTheTokenNotIsFound) {
  Talk talk(ClientCredentials::OfToken(kToken));
  Result<ReceivedHello> heard = talk.server.Receive(talk.client->hello());
  ExchangeKeys anyone = heard->AcceptAnyone();
  Status opened = talk.client->Open(Answer(anyone.answer)).status();
  EXPECT_EQ(opened.code(), Code::kRefused);
  EXPECT_NE(opened.message().find("token"), std::string::npos);
  // One that has the public key, which is no secret, but not the server's.
  std::vector<TokenVerifier> half = Known({kToken});
  half[0].server_key = SecretKey();
  std::optional<ReceivedHello::Accepted> accepted = heard->AcceptToken(half);
  ASSERT_TRUE(accepted);
  EXPECT_EQ(talk.client->Open(Answer(accepted->keys.answer)).status().code(), Code::kRefused);
}

// A server says in its greeting that it wants none, to hear what the client says.
TEST(ExchangeTest, AClientWithATokenTellsNothingToAServerWithoutOne) {
  Talk talk(ClientCredentials::OfToken(kToken), /*needs_token=*/false);
  EXPECT_EQ(talk.client.status().code(), Code::kRefused);
  EXPECT_NE(talk.client.status().message().find("unset FARCALL_TOKEN"), std::string::npos);
  Talk reverse({}, /*needs_token=*/true);
  EXPECT_EQ(reverse.client.status().code(), Code::kRefused);
}

TEST(ExchangeTest, EachByteOfTheAnswerCounts) {
  for (bool with_token : {true, false}) {
    Talk talk(with_token ? ClientCredentials::OfToken(kToken) : ClientCredentials(), with_token);
    Result<ReceivedHello> heard = talk.server.Receive(talk.client->hello());
    AnswerKey key = with_token ? heard->AcceptToken(Known({kToken}))->keys.answer
                               : heard->AcceptAnyone().answer;
    Packet answer = Answer(key);
    for (size_t i = 0; i < answer.size(); ++i) {
      answer[i] ^= std::byte{1};
      EXPECT_FALSE(talk.client->Open(answer).ok()) << i;
      answer[i] ^= std::byte{1};
    }
    for (size_t bytes = sizeof(HandshakeHeader); bytes < answer.size(); ++bytes)
      EXPECT_FALSE(talk.client->Open(std::span(answer).first(bytes)).ok()) << bytes;
    EXPECT_TRUE(talk.client->Open(answer).ok());
    Talk other(with_token ? ClientCredentials::OfToken(kToken) : ClientCredentials(), with_token);
    EXPECT_FALSE(other.client->Open(answer).ok()) << "of another connection";
  }
}

TEST(ExchangeTest, ASessionIsResumedByItsKeyAndNoOther) {
  SessionKey key, wrong;
  RandomBytes(key.bytes());
  RandomBytes(wrong.bytes());
  Talk talk(ClientCredentials::OfSession(key));
  Result<ReceivedHello> heard = talk.server.Receive(talk.client->hello());
  ASSERT_TRUE(heard.ok());
  EXPECT_FALSE(heard->AcceptSession(wrong));
  EXPECT_FALSE(heard->AcceptToken(Known({kToken})));
  std::optional<ExchangeKeys> keys = heard->AcceptSession(key);
  ASSERT_TRUE(keys);
  EXPECT_FALSE(SameBytes(keys->answer.key.bytes(), key.bytes()));
  EXPECT_TRUE(talk.client->Open(Answer(keys->answer)).ok());
  // Who answers without the session's key is not the session's server.
  AnswerKey stranger{heard->AcceptAnyone().answer.key, 0};
  EXPECT_FALSE(talk.client->Open(Answer(stranger)).ok());
  // Recorded, it opens nothing.
  EXPECT_FALSE(ServerExchange(true, "9").Receive(talk.client->hello()).ok());
}

TEST(ExchangeTest, TheWireShowsNoSecret) {
  Talk talk(ClientCredentials::OfToken(kToken));
  Result<ReceivedHello> heard = talk.server.Receive(talk.client->hello());
  ExchangeKeys keys = heard->AcceptToken(Known({kToken}))->keys;
  Welcome welcome;
  RandomBytes(welcome.session);
  Packet answer = *SealWelcome(keys.answer, welcome);
  ASSERT_TRUE(talk.client->Open(answer).ok());
  const TokenVerifier verifier = TokenKeys(kToken).verifier();
  for (const Packet& packet : {talk.server.greeting(), talk.client->hello(), answer}) {
    for (std::string_view text : {kToken, kSecrets, "v4.public", "train.py", "c-17"})
      EXPECT_FALSE(Holds(packet, text)) << text;
    EXPECT_FALSE(Holds(packet, welcome.session));
    EXPECT_FALSE(Holds(packet, keys.session.bytes()));
    EXPECT_FALSE(Holds(packet, keys.answer.key.bytes()));
    EXPECT_FALSE(Holds(packet, verifier.server_key.bytes()));
    EXPECT_FALSE(Holds(packet, verifier.public_key)) << "tells who it is";
    EXPECT_FALSE(Holds(packet, verifier.id())) << "tells who it is";
  }
}

TEST(ExchangeTest, TheSessionsKeyIsOfOneConnection) {
  std::vector<SessionKey> keys;
  for (int i = 0; i < 2; ++i) {
    Talk talk({}, false);
    keys.push_back(talk.server.Receive(talk.client->hello())->AcceptAnyone().session);
  }
  EXPECT_FALSE(SameBytes(keys[0].bytes(), keys[1].bytes()));
}

TEST(ExchangeTest, APacketWithoutAWholeHeaderIsRefused) {
  ServerExchange server(false, "9");
  for (size_t bytes = 0; bytes <= sizeof(HandshakeHeader); ++bytes) {
    Packet packet(server.greeting().begin(),
                  server.greeting().begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_EQ(ClientExchange::Answer(packet, {}, {}).status().code(), Code::kMalformed) << bytes;
    EXPECT_EQ(server.Receive(packet).status().code(), Code::kMalformed) << bytes;
    EXPECT_TRUE(BodyOf(packet).empty());
  }
}

TEST(ExchangeTest, AGreetingOrHelloWithoutAUsableShareIsRefused) {
  ServerExchange server(false, "9");
  Packet greeting = server.greeting();
  Result<Greeting> read = DecodeGreeting(BodyOf(greeting));
  read->share.fill(0);
  Packet zero = *MakePacket(HandshakeType::kGreeting, Encode(*read));
  EXPECT_EQ(ClientExchange::Answer(zero, {}, {}).status().code(), Code::kMalformed);
  Talk talk({}, false);
  Packet hello = talk.client->hello();
  std::fill_n(hello.begin() + sizeof(HandshakeHeader), sizeof(KeyShare), std::byte{0});
  EXPECT_EQ(talk.server.Receive(hello).status().code(), Code::kMalformed);
}

TEST(ExchangeTest, AHelloOfThePreviousMajorIsNamedInOneLine) {
  const uint16_t bytes[] = {0x4346, 0x3148, 200, 0, 2, 1, 2, 0};  // "FCH1", HELLO of wire 1.2
  auto header = std::as_bytes(std::span(bytes)).first<sizeof(HandshakeHeader)>();
  Result<size_t> told = HelloPacketBytes(header);
  EXPECT_EQ(told.status().code(), Code::kUnsupported);
  EXPECT_EQ(told.status().message(),
            "client speaks wire 1.2, this server 2.0: install the same release on both sides");
}

// What a server keeps is enough to know a client by, and not to be one.
TEST(TokenTest, AVerifierComesBackFromItsLineAndCannotLogIn) {
  TokenVerifier verifier = TokenKeys(kToken).verifier();
  verifier.name = "team-a";
  const std::string line = ToText(verifier);
  EXPECT_EQ(line.find(kToken), std::string::npos);
  Result<TokenVerifier> read = ParseVerifier(line);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(ToText(*read), line);
  EXPECT_EQ(read->Tenant().size(), 6u + 16u);
  const std::vector<TokenVerifier> known = {*read};
  EXPECT_EQ(FindToken(known, kToken), &known[0]);
  // Whatever of the line is shown in a token's place.
  std::vector<std::string> words = {line, line.substr(19, 64), line.substr(84, 64), "team-a"};
  for (const std::string& word : words) {
    EXPECT_EQ(FindToken(known, word), nullptr) << word;
    Talk talk(ClientCredentials::OfToken(word));
    EXPECT_FALSE(talk.server.Receive(talk.client->hello())->AcceptToken(known)) << word;
  }
}

TEST(TokenTest, LinesThatAreNoVerifierAreRefused) {
  const std::string line = ToText(TokenKeys(kToken).verifier());
  for (const std::string& wrong :
       {std::string(), std::string("farcall-verifier-2") + line.substr(18), line.substr(0, 100),
        line + "0", line + " two names", line + " " + std::string(65, 'n'), line + " n\x01"})
    EXPECT_EQ(ParseVerifier(wrong).status().code(), Code::kInvalid) << wrong;
  std::string upper = line;
  upper[30] = 'G';
  EXPECT_EQ(ParseVerifier(upper).status().code(), Code::kInvalid);
}

TEST(TokenTest, TwoTokensHaveNothingInCommon) {
  const std::string one = NewToken(), two = NewToken();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_NE(one, two);
  TokenVerifier first = TokenKeys(one).verifier(), second = TokenKeys(two).verifier();
  EXPECT_NE(first.id(), second.id());
  EXPECT_NE(first.public_key, second.public_key);
  EXPECT_FALSE(SameBytes(first.server_key.bytes(), second.server_key.bytes()));
  EXPECT_TRUE(SameBytes(first.server_key.bytes(), TokenKeys(one).verifier().server_key.bytes()));
}

}  // namespace
}  // namespace farcall
