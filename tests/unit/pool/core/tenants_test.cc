// SPDX-License-Identifier: Apache-2.0
// What tenants and hosts may do in a pool: their own claims, so many of them, join tokens.
#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

TEST_F(PoolCore, ATenantKnowsItsOwnClaimsAlone) {
  RequestClaim request;
  request.id = "hers";
  request.tenant = "alice";
  request.idempotency_key = "key";
  request.ask.memory_bytes = kGiB;
  Do(request);
  const std::optional<std::string> bob = "bob", alice = "alice";
  Effects absent = Do(ReleaseClaim{"none", "", {}, bob});
  for (const Event& event :
       {Event(ReleaseClaim{"hers", "", {}, bob}), Event(RenewClaim{"hers", bob})}) {
    Effects refused = Do(event);
    ASSERT_TRUE(refused.refusal);
    EXPECT_EQ(refused.refusal->code, RefusalCode::kNotFound);
    EXPECT_EQ(refused.refusal->message, "there is no claim 'hers'");
    EXPECT_EQ(refused.refusal->hint, absent.refusal->hint);
  }
  ChangeClaim change;
  change.id = "hers";
  change.by = bob;
  change.share_milli = 1;
  EXPECT_EQ(Do(change).refusal->code, RefusalCode::kNotFound);
  request.id = "his";
  request.tenant = "bob";
  EXPECT_EQ(Do(request).claim, "his") << "the key is another's";
  request.id = "again";
  EXPECT_EQ(Do(request).claim, "his");
  EXPECT_FALSE(Do(ReleaseClaim{"hers", "", {}, alice}).refusal);
}

TEST_F(PoolCore, ATenantHasSoManyClaimsAndSoManyAMinute) {
  RequestClaim request;
  request.tenant = "alice";
  request.ask.memory_bytes = 64 * kGiB;  // they wait, and count
  auto ask = [&](const std::string& tenant, int number) {
    request.tenant = tenant;
    request.id = tenant + std::to_string(number);
    return Do(request).refusal;
  };
  for (int i = 0; i < 64; ++i) EXPECT_FALSE(ask("alice", i)) << i;
  ASSERT_TRUE(ask("alice", 64));
  EXPECT_EQ(ask("alice", 64)->code, RefusalCode::kTooMany);
  EXPECT_FALSE(ask("bob", 0));
  Do(ReleaseClaim{"alice0", "", {}});
  EXPECT_EQ(ask("alice", 64)->code, RefusalCode::kTooMany) << "too many a minute";
  Wait(250);
  EXPECT_FALSE(ask("alice", 64));
}

TEST_F(PoolCore, AJoinTokenOpensOnceForItsName) {
  auto join = [&](const std::string& host, const std::string& token, const std::string& credential,
                  int64_t now) {
    std::optional<Refusal> refusal = Do(JoinHost{host, credential, token, now}).refusal;
    return refusal ? std::optional(refusal->code) : std::nullopt;
  };
  Do(MakeJoinToken{"any", {"", 100}, 50});
  Do(MakeJoinToken{"late", {"", 60}, 50});
  Do(MakeJoinToken{"again", {"one", 100}, 50});
  EXPECT_EQ(join("one", "none", "c1", 55), RefusalCode::kDenied);
  EXPECT_EQ(join("one", "late", "c1", 61), RefusalCode::kDenied);
  EXPECT_EQ(join("bad name", "any", "c1", 55), RefusalCode::kInvalid);
  EXPECT_EQ(join("one", "any", "c1", 55), std::nullopt);
  EXPECT_EQ(join("two", "any", "c2", 55), RefusalCode::kDenied);
  EXPECT_EQ(core_.hosts().at("one").credential, "c1");
  // A name that is taken: only by a token for it.
  Do(MakeJoinToken{"other", {"", 100}, 50});
  EXPECT_EQ(join("one", "other", "c3", 55), RefusalCode::kConflict);
  EXPECT_EQ(join("one", "", "c3", 55), RefusalCode::kConflict) << "the lasting one";
  EXPECT_EQ(join("two", "again", "c3", 55), RefusalCode::kDenied);
  EXPECT_EQ(join("one", "again", "c3", 55), std::nullopt);
  EXPECT_EQ(core_.hosts().at("one").credential, "c3");
}

TEST_F(PoolCore, AJoinTokenLetsInAsManyHostsAsItSays) {
  JoinToken token;
  token.expires_unix = 100;
  token.max_uses = 2;
  Do(MakeJoinToken{"0123456789abcdef", token, 50});
  EXPECT_FALSE(Do(JoinHost{"one", "c1", "0123456789abcdef", 55}).refusal);
  EXPECT_EQ(core_.join_tokens().at("0123456789abcdef").uses, 1u);
  EXPECT_FALSE(Do(JoinHost{"two", "c2", "0123456789abcdef", 55}).refusal);
  EXPECT_EQ(Do(JoinHost{"three", "c3", "0123456789abcdef", 55}).refusal->code,
            RefusalCode::kDenied);
  // A name that is taken is no use of it.
  Do(MakeJoinToken{"0123456789abcdef", token, 50});
  EXPECT_EQ(Do(JoinHost{"one", "c4", "0123456789abcdef", 55}).refusal->code,
            RefusalCode::kConflict);
  EXPECT_EQ(core_.join_tokens().at("0123456789abcdef").uses, 0u);
  // Nobody joins by one that was revoked; who has stays.
  EXPECT_EQ(Do(RevokeJoinToken{"j-ffffffffffff", 55}).refusal->code, RefusalCode::kNotFound);
  EXPECT_FALSE(Do(RevokeJoinToken{"j-0123456789ab", 55}).refusal);
  EXPECT_EQ(Do(JoinHost{"four", "c5", "0123456789abcdef", 55}).refusal->code, RefusalCode::kDenied);
  EXPECT_EQ(core_.hosts().at("one").credential, "c1");
  for (uint32_t wrong : {0u, 1001u}) {
    token.max_uses = wrong;
    EXPECT_EQ(Do(MakeJoinToken{"other", token, 50}).refusal->field, "max_uses");
  }
}

// While nothing could be stored, the host was granted the same again: its hold counts from there.
TEST_F(PoolCore, WhatWasGrantedAgainIsHeldAsLong) {
  Request("a", 4);
  Beat();
  Beat(1);
  const Ms before = core_.Find("a")->granted_until;
  now_ += 5000;
  Do(Regranted{{"h", "unknown"}});
  EXPECT_EQ(core_.Find("a")->granted_until, before + 5000);
  EXPECT_EQ(core_.hosts().at("h").heard, now_);
}

}  // namespace
}  // namespace farcall::pool
