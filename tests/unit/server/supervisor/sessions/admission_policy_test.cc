// SPDX-License-Identifier: Apache-2.0
// Who may have a session and how much, by the options alone: each refusal names its remedy.
#include "server/supervisor/sessions/admission_policy.h"

#include <gtest/gtest.h>

#include <string>

namespace farcall::server {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

class AdmissionPolicyTest : public testing::Test {
 protected:
  static Arrival FromAfar() { return {"192.0.2.1:4000", "", std::nullopt, false, false, {}}; }
  static Arrival FromHere() { return {"127.0.0.1:4000", "", std::nullopt, false, true, {}}; }
  Status Check(const Arrival& arrival, const std::string& tls_url = "") {
    return policy_.CheckArrival(arrival, tls_url);
  }
  static bool Names(const Status& status, const std::string& text) {
    return status.message().find(text) != std::string::npos;
  }

  ServeOptions options_;
  AdmissionPolicy policy_{options_};
};

TEST_F(AdmissionPolicyTest, OtherHostsComeByTlsUnlessPlaintextIsAllowed) {
  EXPECT_TRUE(Check(FromHere()).ok());
  Status refused = Check(FromAfar());
  EXPECT_EQ(refused.code(), Code::kRefused);
  EXPECT_TRUE(Names(refused, "--plaintext")) << refused.message();
  refused = Check(FromAfar(), "tls://0.0.0.0:7718");
  EXPECT_TRUE(Names(refused, "port 7718,")) << refused.message();
  Arrival tls = FromAfar();
  tls.is_tls = true;
  EXPECT_TRUE(Check(tls).ok());
  options_.plaintext = true;
  EXPECT_TRUE(Check(FromAfar()).ok());
}

TEST_F(AdmissionPolicyTest, DistantClientsHaveMoreLanesUnlessTheirNumberIsSet) {
  Arrival arrival = FromAfar();
  const auto lanes_at = [&](int64_t microseconds) {
    arrival.round_trip = std::chrono::microseconds(microseconds);
    return policy_.LanesFor(arrival);
  };
  EXPECT_EQ(policy_.LanesFor(arrival), 2u) << "no network";
  EXPECT_EQ(lanes_at(50), 2u);
  EXPECT_EQ(lanes_at(1000), 2u);
  EXPECT_EQ(lanes_at(10'000), 3u);
  EXPECT_EQ(lanes_at(20'000), 6u);
  EXPECT_EQ(lanes_at(30'000), 8u);
  EXPECT_EQ(lanes_at(10'000'000'000), 8u);
  options_.lanes = 1;
  EXPECT_EQ(lanes_at(30'000), 1u);
}

TEST_F(AdmissionPolicyTest, SharedMemoryIsForItsUsers) {
  Arrival arrival = FromHere();
  arrival.user = 1000;
  EXPECT_TRUE(Check(arrival).ok()) << "all who reach the socket";
  options_.shm_users = {1001};
  Status refused = Check(arrival);
  EXPECT_TRUE(Names(refused, "user 1000")) << refused.message();
  arrival.user = 1001;
  EXPECT_TRUE(Check(arrival).ok());
  EXPECT_TRUE(Check(FromHere()).ok()) << "tcp has no users";
}

TEST_F(AdmissionPolicyTest, WithAClientCaACertificateNamesSomebody) {
  options_.tls.authorities = "ca.pem";
  Arrival arrival = FromAfar();
  arrival.is_tls = true;
  EXPECT_EQ(Check(arrival).code(), Code::kRefused);
  arrival.identity = "alice";
  EXPECT_TRUE(Check(arrival).ok());
  EXPECT_TRUE(Check(FromHere()).ok()) << "its token says who it is";
}

TEST_F(AdmissionPolicyTest, ALaneComesAsItsSessionDoes) {
  Arrival session = FromAfar();
  session.is_tls = true;
  session.identity = "alice";
  EXPECT_TRUE(AdmissionPolicy::CheckSame(session, session).ok());
  Arrival plain = session;
  plain.is_tls = false;
  EXPECT_TRUE(Names(AdmissionPolicy::CheckSame(session, plain), "this connection does not"));
  EXPECT_TRUE(Names(AdmissionPolicy::CheckSame(plain, session), "the session does not"));
  Arrival other = session;
  other.identity = "bob";
  EXPECT_TRUE(Names(AdmissionPolicy::CheckSame(session, other), "'bob'"));
  other.peer = "198.51.100.7:1";
  other.identity = "alice";
  EXPECT_TRUE(AdmissionPolicy::CheckSame(session, other).ok()) << "an address may change";
}

TEST_F(AdmissionPolicyTest, RoomEndsWhereTheOptionsSay) {
  options_.max_sessions = 3;
  options_.max_tenant_sessions = 2;
  EXPECT_TRUE(policy_.CheckRoom({.sessions = 2, .tenant_sessions = 1}, "alice").ok());
  EXPECT_TRUE(Names(policy_.CheckRoom({.sessions = 3}, "alice"), "full: 3 sessions of 3"));
  Status refused = policy_.CheckRoom({.sessions = 2, .tenant_sessions = 2}, "alice");
  EXPECT_TRUE(Names(refused, "alice has 2 sessions of 2")) << refused.message();
  EXPECT_TRUE(policy_.CheckRoom({.sessions = 2, .tenant_sessions = 2}, "").ok())
      << "the pool counts a claim's";
  EXPECT_TRUE(Names(policy_.CheckRoom({.is_draining = true}, "alice"), "draining"));
  EXPECT_TRUE(Names(policy_.CheckRoom({.has_room_in_memory = false}, "alice"), "swaps"));
}

TEST_F(AdmissionPolicyTest, SessionsAreCountedByCertificateTokenOrAddress) {
  Arrival arrival = FromAfar();
  EXPECT_EQ(policy_.CountedAs(arrival, "token-1"), "192.0.2.1");
  options_.tokens.resize(2);
  EXPECT_EQ(policy_.CountedAs(arrival, "token-1"), "token-1");
  arrival.identity = "spiffe://lab/alice";
  EXPECT_EQ(policy_.CountedAs(arrival, "token-1"), "spiffe://lab/alice");
}

TEST_F(AdmissionPolicyTest, AQuotaIsAtMostTheDeviceAndTheServersCeiling) {
  EXPECT_EQ(policy_.QuotaFor(0, 8 * kGiB), 8 * kGiB);
  EXPECT_EQ(policy_.QuotaFor(3 * kGiB, 8 * kGiB), 3 * kGiB);
  options_.memory_bytes = 2 * kGiB;
  EXPECT_EQ(policy_.CeilingOf(8 * kGiB), 2 * kGiB);
  EXPECT_EQ(policy_.QuotaFor(0, 8 * kGiB), 2 * kGiB);
  EXPECT_EQ(policy_.QuotaFor(0, kGiB), kGiB);
  EXPECT_TRUE(policy_.CheckMemory(2 * kGiB, {8 * kGiB}).ok());
  Status refused = policy_.CheckMemory(2 * kGiB + 1, {8 * kGiB, kGiB});
  EXPECT_TRUE(Names(refused, "at most 2147483648 here")) << refused.message();
}

}  // namespace
}  // namespace farcall::server
