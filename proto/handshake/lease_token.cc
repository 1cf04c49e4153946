// SPDX-License-Identifier: Apache-2.0
#include "proto/handshake/lease_token.h"

#include <sodium.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

namespace farcall {

namespace {

constexpr std::string_view kHeader = "v4.public.";
constexpr int kBase64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

// The pre-authentication encoding: a count of pieces, then each with its length.
std::string Encoded(std::string_view message) {
  std::string text;
  auto number = [&](uint64_t value) {
    for (int i = 0; i < 8; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  };
  number(4);
  for (std::string_view piece : {kHeader, message, std::string_view(), std::string_view()}) {
    number(piece.size());
    text += piece;
  }
  return text;
}

const uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

std::string TimeText(int64_t seconds) {
  auto time = static_cast<time_t>(seconds);
  tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

bool ParseTime(const std::string& text, int64_t* seconds) {
  tm parts{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return false;
  *seconds = timegm(&parts);
  return true;
}

Status Refuse(const std::string& why) {
  return {Code::kRefused, "the lease " + why};
}

}  // namespace

LeaseSecretKey NewLeaseKey() {
  LeaseSecretKey secret;
  LeasePublicKey unused;
  if (sodium_init() < 0) std::abort();  // no randomness, no key
  crypto_sign_keypair(unused.data(), secret.data());
  return secret;
}

LeasePublicKey PublicHalf(const LeaseSecretKey& key) {
  LeasePublicKey half;
  crypto_sign_ed25519_sk_to_pk(half.data(), key.data());
  return half;
}

std::string SignPaseto(std::string_view message, const LeaseSecretKey& key) {
  std::string signed_text = Encoded(message), body(message);
  body.resize(message.size() + crypto_sign_BYTES);
  crypto_sign_detached(reinterpret_cast<uint8_t*>(body.data()) + message.size(), nullptr,
                       Bytes(signed_text), signed_text.size(), key.data());
  std::string text(sodium_base64_encoded_len(body.size(), kBase64), '\0');
  sodium_bin2base64(text.data(), text.size(), Bytes(body), body.size(), kBase64);
  text.resize(std::strlen(text.c_str()));
  return std::string(kHeader) + text;
}

Result<std::string> OpenPaseto(std::string_view token, const LeasePublicKey& key) {
  if (token.size() > kMaxLeaseBytes || token.substr(0, kHeader.size()) != kHeader)
    return Refuse("is no v4.public token");
  std::string_view text = token.substr(kHeader.size());
  std::string body(text.size(), '\0');
  size_t bytes = 0;
  if (sodium_base642bin(reinterpret_cast<uint8_t*>(body.data()), body.size(), text.data(),
                        text.size(), nullptr, &bytes, nullptr, kBase64) != 0 ||
      bytes < crypto_sign_BYTES)
    return Refuse("is no v4.public token");
  std::string message = body.substr(0, bytes - crypto_sign_BYTES);
  std::string signed_text = Encoded(message);
  if (crypto_sign_verify_detached(Bytes(body) + message.size(), Bytes(signed_text),
                                  signed_text.size(), key.data()) != 0)
    return Refuse("is not signed by this host's pool");
  return message;
}

std::string SignLease(const Lease& lease, const LeaseSecretKey& key) {
  nlohmann::json fields = {{"pool", lease.pool},
                           {"claim", lease.claim},
                           {"host", lease.host},
                           {"epoch", lease.epoch},
                           {"inst", lease.instance},
                           {"jti", lease.id},
                           {"nbf", TimeText(lease.not_before)},
                           {"exp", TimeText(lease.expires)}};
  return SignPaseto(fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), key);
}

Result<Lease> ReadLease(std::string_view token, const LeasePublicKey& key) {
  Result<std::string> message = OpenPaseto(token, key);
  if (!message.ok()) return message.status();
  nlohmann::json fields = nlohmann::json::parse(*message, nullptr, false);
  auto text = [&](const char* name, std::string* into) {
    auto field = fields.find(name);
    if (field == fields.end() || !field->is_string()) return false;
    *into = field->get<std::string>();
    return true;
  };
  Lease lease;
  std::string not_before, expires;
  if (!fields.is_object() || !text("pool", &lease.pool) || !text("claim", &lease.claim) ||
      !text("host", &lease.host) || !text("jti", &lease.id) || !text("nbf", &not_before) ||
      !text("exp", &expires) || !fields.contains("epoch") ||
      !fields["epoch"].is_number_unsigned() || !fields.contains("inst") ||
      !fields["inst"].is_number_unsigned() || !ParseTime(not_before, &lease.not_before) ||
      !ParseTime(expires, &lease.expires))
    return Refuse("lacks a field");
  lease.epoch = fields["epoch"].get<uint64_t>();
  lease.instance = fields["inst"].get<uint64_t>();
  return lease;
}

Status CheckLease(const Lease& lease, std::string_view pool, std::string_view host,
                  uint64_t instance, int64_t now) {
  if (lease.pool != pool) return Refuse("is of another pool");
  if (lease.host != host)
    return Refuse("is for host '" + lease.host + "', this is '" + std::string(host) + "'");
  if (lease.instance != instance)
    return Refuse("is for another start of this host's server; ask the pool again");
  if (now > lease.expires + kLeaseSkewSeconds)
    return Refuse("expired " + std::to_string(now - lease.expires) + " s ago; ask the pool again");
  if (now < lease.not_before - kLeaseSkewSeconds)
    return Refuse("begins " + std::to_string(lease.not_before - now) +
                  " s from now: the clocks of pool and host differ");
  return {};
}

}  // namespace farcall
