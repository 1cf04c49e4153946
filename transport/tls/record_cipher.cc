// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/record_cipher.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "transport/tls/openssl.h"

namespace farcall {

namespace {

struct SuiteParts {
  const EVP_CIPHER* cipher;
  const EVP_MD* hash;
  size_t key_bytes;
};

SuiteParts PartsOf(TlsSuite suite) {
  switch (suite) {
    case TlsSuite::kAes128GcmSha256:
      return {EVP_aes_128_gcm(), EVP_sha256(), 16};
    case TlsSuite::kAes256GcmSha384:
      return {EVP_aes_256_gcm(), EVP_sha384(), 32};
    case TlsSuite::kChacha20Poly1305Sha256:
      return {EVP_chacha20_poly1305(), EVP_sha256(), 32};
  }
  return {nullptr, nullptr, 0};
}

// HKDF-Expand-Label with an empty context (RFC 8446 7.1), of at most the hash's size: one round.
bool ExpandLabel(const EVP_MD* hash, std::span<const std::byte> secret, std::string_view label,
                 std::span<unsigned char> out) {
  const std::string full = "tls13 " + std::string(label);
  std::array<unsigned char, 64> info{};
  size_t at = 0;
  info[at++] = static_cast<unsigned char>(out.size() >> 8);
  info[at++] = static_cast<unsigned char>(out.size());
  info[at++] = static_cast<unsigned char>(full.size());
  std::memcpy(&info[at], full.data(), full.size());
  at += full.size();
  info[at++] = 0;  // of the context
  info[at++] = 1;  // the round
  std::array<unsigned char, EVP_MAX_MD_SIZE> block;
  unsigned bytes = 0;
  const bool made = HMAC(hash, secret.data(), static_cast<int>(secret.size()), info.data(), at,
                         block.data(), &bytes) != nullptr &&
                    bytes >= out.size();
  if (made) std::copy_n(block.begin(), out.size(), out.begin());
  OPENSSL_cleanse(block.data(), block.size());
  return made;
}

std::array<std::byte, kTlsHeaderBytes> HeaderOf(size_t bytes) {
  return {std::byte{static_cast<uint8_t>(TlsContent::kData)}, std::byte{3}, std::byte{3},
          std::byte(bytes >> 8), std::byte(bytes & 0xff)};
}

unsigned char* Bytes(std::byte* at) {
  return reinterpret_cast<unsigned char*>(at);
}
const unsigned char* Bytes(const std::byte* at) {
  return reinterpret_cast<const unsigned char*>(at);
}

Status Refused(const char* what) {
  return {Code::kInternal, std::string("tls: OpenSSL refuses to ") + what};
}

Status Unreadable(const char* why) {
  return {Code::kMalformed, std::string("tls: a record that ") + why};
}

}  // namespace

RecordCipher::RecordCipher(const TlsTraffic& traffic, bool seals)
    : traffic_(traffic), seals_(seals), context_(EVP_CIPHER_CTX_new()) {}

RecordCipher::~RecordCipher() {
  EVP_CIPHER_CTX_free(context_);
  OPENSSL_cleanse(traffic_.secret.data(), traffic_.secret.size());
}

Result<std::unique_ptr<RecordCipher>> RecordCipher::Make(const TlsTraffic& traffic, bool seals) {
  if (traffic.secret.empty() || traffic.secret.size() != TlsSecretBytes(traffic.suite)) {
    return Status(Code::kMalformed, "tls: a secret of " + std::to_string(traffic.secret.size()) +
                                        " bytes is not one of its suite");
  }
  StartOpenSsl();
  std::unique_ptr<RecordCipher> made(new RecordCipher(traffic, seals));
  FARCALL_TRY(made->SetKey());
  return made;
}

Status RecordCipher::SetKey() {
  const SuiteParts parts = PartsOf(traffic_.suite);
  std::array<unsigned char, 32> key{};
  const std::span<unsigned char> used(key.data(), parts.key_bytes);
  const bool set =
      context_ != nullptr && ExpandLabel(parts.hash, traffic_.secret, "key", used) &&
      ExpandLabel(parts.hash, traffic_.secret, "iv", iv_) &&
      EVP_CipherInit_ex(context_, parts.cipher, nullptr, key.data(), nullptr, seals_ ? 1 : 0) == 1;
  OPENSSL_cleanse(key.data(), key.size());
  return set ? Status() : Status(Code::kUnsupported, "tls: OpenSSL lacks the suite's cipher");
}

Status RecordCipher::Update() {
  const SuiteParts parts = PartsOf(traffic_.suite);
  std::array<unsigned char, EVP_MAX_MD_SIZE> next;
  const std::span<unsigned char> used(next.data(), traffic_.secret.size());
  if (!ExpandLabel(parts.hash, traffic_.secret, "traffic upd", used))
    return Refused("derive a secret");
  std::memcpy(traffic_.secret.data(), used.data(), used.size());
  OPENSSL_cleanse(next.data(), next.size());
  traffic_.sequence = 0;
  return SetKey();
}

// Sets the nonce of the next record, and its header as what is authenticated beside it.
bool RecordCipher::Begin(std::span<const std::byte, kTlsHeaderBytes> header) {
  std::array<unsigned char, 12> nonce = iv_;
  for (size_t i = 0; i < 8; ++i)
    nonce[11 - i] ^= static_cast<unsigned char>(traffic_.sequence >> (8 * i));
  ++traffic_.sequence;
  int bytes = 0;
  return EVP_CipherInit_ex(context_, nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
         EVP_CipherUpdate(context_, nullptr, &bytes, Bytes(header.data()),
                          static_cast<int>(header.size())) == 1;
}

Result<size_t> RecordCipher::Seal(TlsContent type,
                                  std::span<const std::span<const std::byte>> parts,
                                  std::byte* out) {
  size_t content = 0;
  for (const std::span<const std::byte>& part : parts) content += part.size();
  const auto header = HeaderOf(content + 1 + kTlsTagBytes);
  std::memcpy(out, header.data(), header.size());
  std::byte* at = out + header.size();
  bool sealed = Begin(header);
  auto take = [&](std::span<const std::byte> from) {
    int bytes = 0;
    sealed =
        sealed && (from.empty() || EVP_CipherUpdate(context_, Bytes(at), &bytes, Bytes(from.data()),
                                                    static_cast<int>(from.size())) == 1);
    at += bytes;
  };
  for (const std::span<const std::byte>& part : parts) take(part);
  const std::byte kind{static_cast<uint8_t>(type)};
  take({&kind, 1});
  int last = 0;
  sealed = sealed && EVP_CipherFinal_ex(context_, Bytes(at), &last) == 1 &&
           EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, kTlsTagBytes, at) == 1;
  if (!sealed) return Refused("seal a record");
  return header.size() + content + 1 + kTlsTagBytes;
}

Result<RecordCipher::Opened> RecordCipher::Open(std::span<const std::byte> record,
                                                std::byte* into) {
  if (record.size() < kTlsHeaderBytes + 1 + kTlsTagBytes) return Unreadable("is too short");
  const std::span<const std::byte> sealed =
      record.subspan(kTlsHeaderBytes, record.size() - kTlsHeaderBytes - kTlsTagBytes);
  const std::span<const std::byte> tag = record.last(kTlsTagBytes);
  int bytes = 0, last = 0;
  const bool opened = Begin(record.first<kTlsHeaderBytes>()) &&
                      EVP_CipherUpdate(context_, Bytes(into), &bytes, Bytes(sealed.data()),
                                       static_cast<int>(sealed.size())) == 1 &&
                      EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, kTlsTagBytes,
                                          const_cast<std::byte*>(tag.data())) == 1 &&
                      EVP_CipherFinal_ex(context_, Bytes(into) + bytes, &last) == 1;
  if (!opened) return Unreadable("is not of these keys: it was changed, or comes at another place");
  size_t content = static_cast<size_t>(bytes);
  while (content != 0 && into[content - 1] == std::byte{0}) --content;  // padding
  if (content == 0) return Unreadable("has no type");
  Opened result{static_cast<TlsContent>(into[content - 1]), content - 1};
  if (result.bytes > kMaxTlsPlainBytes) return Unreadable("is too long");
  return result;
}

}  // namespace farcall
