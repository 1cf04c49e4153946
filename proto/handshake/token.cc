// SPDX-License-Identifier: Apache-2.0
#include "proto/handshake/token.h"

#include <algorithm>
#include <cstring>

#include "proto/hex.h"

namespace farcall {
namespace {

constexpr std::string_view kPrefix = "farcall-verifier-1";

SecretKey RootOf(std::string_view token) {
  constexpr std::string_view kSalt = "farcall token 1";
  return HkdfExtract({reinterpret_cast<const uint8_t*>(kSalt.data()), kSalt.size()},
                     {reinterpret_cast<const uint8_t*>(token.data()), token.size()});
}

bool ReadHex(std::string_view text, std::span<uint8_t> into) {
  if (text.size() != 2 * into.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    into[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? digit << 4 : into[i / 2] | digit);
  }
  return true;
}

// Takes the next word off the line.
std::string_view NextWord(std::string_view* line) {
  constexpr std::string_view kSpaces = " \t\r";
  line->remove_prefix(std::min(line->find_first_not_of(kSpaces), line->size()));
  std::string_view word = line->substr(0, line->find_first_of(kSpaces));
  line->remove_prefix(word.size());
  return word;
}

}  // namespace

TokenId TokenVerifier::id() const {
  Hash256 hash = Sha256(std::as_bytes(std::span(public_key)));
  TokenId id;
  std::copy_n(hash.begin(), id.size(), id.begin());
  return id;
}

std::string TokenVerifier::Tenant() const {
  return "token-" + HexOf(id());
}

std::string CertificateTenant(std::string_view identity) {
  const Hash256 hash = Sha256(std::as_bytes(std::span(identity)));
  return "cert-" + HexOf(std::span(hash).first(16));
}

TokenKeys::TokenKeys(std::string_view token) : TokenKeys(RootOf(token)) {}

TokenKeys::TokenKeys(const SecretKey& root)
    : signer_(HkdfExpand(root, "farcall token: client signs")) {
  verifier_.public_key = signer_.public_key();
  verifier_.server_key = HkdfExpand(root, "farcall token: server proves itself");
}

std::string NewToken() {
  std::array<uint8_t, 32> bytes;
  RandomBytes(bytes);
  std::string token = HexOf(bytes);
  Wipe(bytes);
  return token;
}

std::string ToText(const TokenVerifier& verifier) {
  std::string text(kPrefix);
  text.append(" ").append(HexOf(verifier.public_key));
  text.append(" ").append(HexOf(verifier.server_key.bytes()));
  if (!verifier.name.empty()) text.append(" ").append(verifier.name);
  return text;
}

Result<TokenVerifier> ParseVerifier(std::string_view line) {
  if (NextWord(&line) != kPrefix)
    return Status(Code::kInvalid,
                  "no verifier: write lines that `farcall token new --verifier FILE` made");
  TokenVerifier verifier;
  if (!ReadHex(NextWord(&line), verifier.public_key) ||
      !ReadHex(NextWord(&line), verifier.server_key.bytes()))
    return Status(Code::kInvalid, "a verifier with a key that is not of 64 hexadecimal digits");
  std::string_view name = NextWord(&line);
  if (!name.empty()) FARCALL_TRY(CheckTokenName(name));
  if (!NextWord(&line).empty())
    return Status(Code::kInvalid, "a verifier with more than a name behind its keys");
  verifier.name = name;
  return verifier;
}

Status CheckTokenName(std::string_view name) {
  bool is_good = !name.empty() && name.size() <= kMaxTokenName &&
                 std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 127; });
  if (is_good) return {};
  return {Code::kInvalid, "a token's name has 1 to " + std::to_string(kMaxTokenName) +
                              " printable characters and no space"};
}

const TokenVerifier* FindToken(std::span<const TokenVerifier> known, std::string_view token) {
  if (token.empty() || known.empty()) return nullptr;
  const TokenVerifier given = TokenKeys(token).verifier();
  const TokenVerifier* found = nullptr;
  for (const TokenVerifier& each : known) {
    // Both: the public key is known to others, the server's is not.
    if (SameBytes(each.public_key, given.public_key) &&
        SameBytes(each.server_key.bytes(), given.server_key.bytes()))
      found = &each;
  }
  return found;
}

}  // namespace farcall
