// SPDX-License-Identifier: Apache-2.0
// Published vectors of what the handshake is made of.
#include "proto/handshake/crypto.h"

#include <gtest/gtest.h>

#include "proto/hex.h"

namespace farcall {
namespace {

std::vector<uint8_t> Bytes(std::string_view hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

TEST(CryptoTest, Sha256OfAbc) {
  EXPECT_EQ(HexOf(Sha256(BytesOf("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256({BytesOf("a"), BytesOf(""), BytesOf("bc")}), Sha256(BytesOf("abc")));
}

// RFC 5869, A.1, A.2 (more than one block) and A.3 (no salt, no info).
TEST(CryptoTest, HkdfOfRfc5869) {
  struct {
    std::string secret, salt, info, prk, out;
  } cases[] = {
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c",
       "f0f1f2f3f4f5f6f7f8f9", "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
       "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
      {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c"
       "2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f",
       "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c"
       "8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
       "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdc"
       "dddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
       "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
       "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e"
       "590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
       "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
       "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
  };
  for (const auto& each : cases) {
    SecretKey prk = HkdfExtract(Bytes(each.salt), Bytes(each.secret));
    EXPECT_EQ(HexOf(prk.bytes()), each.prk);
    std::vector<uint8_t> info = Bytes(each.info), out(each.out.size() / 2);
    HkdfExpand(prk, std::as_bytes(std::span(info)), out);
    EXPECT_EQ(HexOf(out), each.out);
  }
}

TEST(CryptoTest, BothSidesOfAnExchangeHaveOneSecret) {
  ExchangeKey one, other;
  std::optional<SecretKey> here = one.SharedWith(other.share()),
                           there = other.SharedWith(one.share());
  ASSERT_TRUE(here && there);
  EXPECT_TRUE(SameBytes(here->bytes(), there->bytes()));
  ExchangeKey third;
  EXPECT_FALSE(SameBytes(here->bytes(), one.SharedWith(third.share())->bytes()));
}

// Points of small order, with which the secret would be zero whatever the key is.
TEST(CryptoTest, AShareOfSmallOrderIsRefused) {
  ExchangeKey key;
  EXPECT_FALSE(key.SharedWith(KeyShare{}));
  KeyShare one{1};
  EXPECT_FALSE(key.SharedWith(one));
  for (const char* hex : {"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                          "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
                          "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                          "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                          "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"}) {
    std::vector<uint8_t> bytes = Bytes(hex);
    KeyShare share;
    std::copy(bytes.begin(), bytes.end(), share.begin());
    EXPECT_FALSE(key.SharedWith(share)) << hex;
  }
}

// RFC 8032, 7.1, test 2.
TEST(CryptoTest, Ed25519OfRfc8032) {
  std::vector<uint8_t> seed =
      Bytes("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
  SecretKey key;
  std::copy(seed.begin(), seed.end(), key.data());
  const Signer signer(key);
  EXPECT_EQ(HexOf(signer.public_key()),
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  const uint8_t message[] = {0x72};
  Signature signature = signer.Sign(message);
  EXPECT_EQ(
      HexOf(signature),
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613"
      "d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
  EXPECT_TRUE(IsSignedBy(signer.public_key(), message, signature));
  signature[7] ^= 1;
  EXPECT_FALSE(IsSignedBy(signer.public_key(), message, signature));
  EXPECT_FALSE(IsSignedBy(signer.public_key(), message, std::span(signature).first(63)));
}

TEST(CryptoTest, WhatIsSealedOpensUnchangedOnly) {
  SecretKey key, other;
  RandomBytes(key.bytes());
  RandomBytes(other.bytes());
  std::vector<std::byte> sealed = Seal(key, BytesOf("secret"), BytesOf("open"));
  EXPECT_EQ(sealed.size(), 6 + kSealBytes);
  ASSERT_TRUE(Unseal(key, sealed, BytesOf("open")));
  EXPECT_FALSE(Unseal(other, sealed, BytesOf("open")));
  EXPECT_FALSE(Unseal(key, sealed, BytesOf("opem")));
  for (size_t i = 0; i < sealed.size(); ++i) {
    sealed[i] ^= std::byte{1};
    EXPECT_FALSE(Unseal(key, sealed, BytesOf("open"))) << i;
    sealed[i] ^= std::byte{1};
  }
  for (size_t bytes = 0; bytes < sealed.size(); ++bytes)
    EXPECT_FALSE(Unseal(key, std::span(sealed).first(bytes), BytesOf("open"))) << bytes;
}

TEST(CryptoTest, ComparesLengthsAndBytes) {
  const uint8_t a[] = {1, 2, 3}, b[] = {1, 2, 4};
  EXPECT_TRUE(SameBytes(a, a));
  EXPECT_FALSE(SameBytes(a, b));
  EXPECT_FALSE(SameBytes(a, std::span(a).first(2)));
}

}  // namespace
}  // namespace farcall
