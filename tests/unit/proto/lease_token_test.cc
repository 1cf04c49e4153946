// SPDX-License-Identifier: Apache-2.0
#include "proto/handshake/lease_token.h"

#include <gtest/gtest.h>

namespace farcall {
namespace {

Lease SomeLease() {
  return {"pool", "c-1", "gpu7", 3, 42, "jti", 1'700'000'000, 1'700'000'060};
}

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

// Test vector 4-S-1 of the PASETO specification.
TEST(LeaseToken, SignsAsTheSpecificationDoes) {
  std::string bytes = FromHex(
      "b4cbfb43df4ce210727d953e4a713307fa19bb7d9f85041438d9e11b942a3774"
      "1eb9dbbbbc047c03fd70604e0071f0987e16b28b757225c11f00415d0e20b1a2");
  LeaseSecretKey key;
  std::copy(bytes.begin(), bytes.end(), key.begin());
  std::string message = R"({"data":"this is a signed message","exp":"2022-01-01T00:00:00+00:00"})";
  std::string token =
      "v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIiwiZXhwIjoiMjAyMi0wMS0wMVQwMDowMDowMC"
      "swMDowMCJ9bg_XBBzds8lTZShVlwwKSgeKpLT3yukTw6JUz3W4h_ExsQV-"
      "P0V54zemZDcAxFaSeef1QlXEFtkqxT1ciiQ"
      "EDA";
  EXPECT_EQ(SignPaseto(message, key), token);
  EXPECT_EQ(*OpenPaseto(token, PublicHalf(key)), message);
}

TEST(LeaseToken, ComesBackWhole) {
  LeaseSecretKey key = NewLeaseKey();
  auto lease = ReadLease(SignLease(SomeLease(), key), PublicHalf(key));
  ASSERT_TRUE(lease.ok()) << lease.status().message();
  EXPECT_EQ(lease->claim, "c-1");
  EXPECT_EQ(lease->epoch, 3u);
  EXPECT_EQ(lease->expires, 1'700'000'060);
  EXPECT_TRUE(CheckLease(*lease, "pool", "gpu7", 42, 1'700'000'030).ok());
}

TEST(LeaseToken, NoChangedByteIsTaken) {
  LeaseSecretKey key = NewLeaseKey();
  std::string token = SignLease(SomeLease(), key);
  for (size_t i = 0; i < token.size(); ++i) {
    std::string forged = token;
    forged[i] = forged[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(ReadLease(forged, PublicHalf(key)).ok()) << i;
    EXPECT_FALSE(ReadLease(token.substr(0, i), PublicHalf(key)).ok()) << i;
  }
  EXPECT_FALSE(ReadLease(token, PublicHalf(NewLeaseKey())).ok());
}

TEST(LeaseToken, OpensAtItsHostInItsTimeOnly) {
  auto why = [](const Lease& lease, const char* pool, const char* host, int64_t now) {
    return CheckLease(lease, pool, host, 42, now).message();
  };
  EXPECT_EQ(why(SomeLease(), "other", "gpu7", 1'700'000'000), "the lease is of another pool");
  EXPECT_EQ(why(SomeLease(), "pool", "gpu8", 1'700'000'000),
            "the lease is for host 'gpu7', this is 'gpu8'");
  EXPECT_EQ(why(SomeLease(), "pool", "gpu7", 1'700'000'070),
            "the lease expired 10 s ago; ask the pool again");
  EXPECT_EQ(why(SomeLease(), "pool", "gpu7", 1'699'999'990),
            "the lease begins 10 s from now: the clocks of pool and host differ");
  EXPECT_EQ(CheckLease(SomeLease(), "pool", "gpu7", 43, 1'700'000'030).message(),
            "the lease is for another start of this host's server; ask the pool again");
}

}  // namespace
}  // namespace farcall
