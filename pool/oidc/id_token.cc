// SPDX-License-Identifier: Apache-2.0
#include "pool/oidc/id_token.h"

#include <cjose/cjose.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "pool/core/model/accounts.h"
#include "proto/printable.h"

namespace farcall::pool {

namespace {

using Json = nlohmann::json;

constexpr int64_t kSkewS = 60;  // between two clocks
constexpr size_t kMaxGroups = 1000, kMaxSubject = 255, kMinRsaBits = 2048, kMaxKeys = 100;

template <auto Function>
struct Releases {
  template <typename T>
  void operator()(T* held) const {
    Function(held);
  }
};
using Jws = std::unique_ptr<cjose_jws_t, Releases<cjose_jws_release>>;
using Jwk = std::unique_ptr<cjose_jwk_t, Releases<cjose_jwk_release>>;

Status Refuse(const std::string& why) {
  return {Code::kRefused, "the provider's token " + why};
}

std::string TextAt(const Json& object, const char* name) {
  auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

struct Parsed {
  Jws jws;
  std::string algorithm, key;
};

Result<Parsed> Parse(std::string_view id_token) {
  if (id_token.size() > kMaxIdTokenBytes)
    return Status(Code::kMalformed, "the provider's token has more than 16 KiB");
  cjose_err error{};
  Parsed parsed;
  parsed.jws.reset(cjose_jws_import(id_token.data(), id_token.size(), &error));
  if (parsed.jws == nullptr) return Status(Code::kMalformed, "this is no token of a provider");
  cjose_header_t* header = cjose_jws_get_protected(parsed.jws.get());
  const char* algorithm = cjose_header_get(header, CJOSE_HDR_ALG, &error);
  const char* key = cjose_header_get(header, CJOSE_HDR_KID, &error);
  parsed.algorithm = algorithm == nullptr ? "" : algorithm;
  parsed.key = key == nullptr ? "" : key;
  if (parsed.algorithm != "RS256" && parsed.algorithm != "ES256")
    return Status(Code::kInvalid, "the provider's token is signed by '" +
                                      Printable(parsed.algorithm, 32) +
                                      "', and only RS256 and ES256 are taken");
  return parsed;
}

// Of the set, what may have signed: of that id, where the token names one, and for that algorithm.
std::vector<Jwk> KeysFor(const Parsed& parsed, const Json& keys) {
  std::vector<Jwk> found;
  const bool is_rsa = parsed.algorithm == "RS256";
  size_t seen = 0;
  for (const Json& each : keys.value("keys", Json::array())) {
    if (++seen > kMaxKeys) break;
    if (!each.is_object() || TextAt(each, "kty") != (is_rsa ? "RSA" : "EC")) continue;
    if (!parsed.key.empty() && TextAt(each, "kid") != parsed.key) continue;
    if (each.contains("use") && TextAt(each, "use") != "sig") continue;
    if (each.contains("alg") && TextAt(each, "alg") != parsed.algorithm) continue;
    if (!is_rsa && TextAt(each, "crv") != "P-256") continue;
    const std::string text = each.dump(-1, ' ', true, Json::error_handler_t::replace);
    cjose_err error{};
    Jwk key(cjose_jwk_import(text.data(), text.size(), &error));
    if (key == nullptr) continue;
    if (is_rsa && cjose_jwk_get_keysize(key.get(), &error) < kMinRsaBits) continue;
    found.push_back(std::move(key));
  }
  return found;
}

bool IsSigned(const Parsed& parsed, const Json& keys) {
  std::vector<Jwk> found = KeysFor(parsed, keys);
  return std::any_of(found.begin(), found.end(), [&](const Jwk& key) {
    cjose_err error{};
    return cjose_jws_verify(parsed.jws.get(), key.get(), &error);
  });
}

// A text, or a list of them.
std::vector<std::string> TextsAt(const Json& object, const std::string& name) {
  std::vector<std::string> texts;
  auto found = object.find(name);
  if (found == object.end()) return texts;
  if (found->is_string()) return {found->get<std::string>()};
  if (!found->is_array()) return texts;
  for (const Json& each : *found)
    if (each.is_string() && texts.size() < kMaxGroups) texts.push_back(each.get<std::string>());
  return texts;
}

std::optional<int64_t> SecondsAt(const Json& object, const char* name) {
  auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double seconds = found->get<double>();
  if (!(seconds >= 0 && seconds < 1e15)) return std::nullopt;
  return static_cast<int64_t>(seconds);
}

Status CheckClaims(const Json& claims, const IdTokenRules& rules, int64_t now) {
  if (TextAt(claims, "iss") != rules.issuer)
    return Refuse("is of '" + Printable(TextAt(claims, "iss"), 128) + "', not of " + rules.issuer);
  const std::vector<std::string> audience = TextsAt(claims, "aud");
  if (std::find(audience.begin(), audience.end(), rules.audience) == audience.end())
    return Refuse("is not for this pool: its audience is not '" + rules.audience + "'");
  if (audience.size() > 1 && TextAt(claims, "azp") != rules.audience)
    return Refuse("is for several, and not by this pool's client");
  const std::optional<int64_t> expires = SecondsAt(claims, "exp"),
                               begins = SecondsAt(claims, "nbf"), issued = SecondsAt(claims, "iat");
  if (!expires) return Refuse("does not say when it expires");
  if (*expires + kSkewS <= now) return Refuse("has expired: log in again");
  if ((begins && *begins > now + kSkewS) || (issued && *issued > now + kSkewS))
    return Refuse("is not valid yet: compare the clocks of the pool and the provider");
  return {};
}

}  // namespace

bool ChecksIdTokens() {
  return true;
}

Result<std::string> KeyIdOf(std::string_view id_token) {
  Result<Parsed> parsed = Parse(id_token);
  if (!parsed.ok()) return parsed.status();
  return parsed->key;
}

Result<ProvenIdentity> CheckIdToken(std::string_view id_token, const Json& keys,
                                    const IdTokenRules& rules, int64_t now_unix) {
  Result<Parsed> parsed = Parse(id_token);
  if (!parsed.ok()) return parsed.status();
  if (!keys.is_object() || !IsSigned(*parsed, keys))
    return Refuse("is not signed by a key of " + rules.issuer);
  uint8_t* text = nullptr;
  size_t bytes = 0;
  cjose_err error{};
  if (!cjose_jws_get_plaintext(parsed->jws.get(), &text, &bytes, &error))
    return Refuse("cannot be read");
  const Json claims = Json::parse(text, text + bytes, nullptr, false);
  if (!claims.is_object()) return Refuse("has no claims");
  if (Status checked = CheckClaims(claims, rules, now_unix); !checked.ok()) return checked;
  ProvenIdentity identity;
  identity.subject = TextAt(claims, "sub");
  if (identity.subject.empty() || identity.subject.size() > kMaxSubject)
    return Refuse("names nobody: 'sub' has to have 1 to 255 characters");
  identity.user = TextAt(claims, rules.user_claim.c_str());
  if (!IsAccountName(identity.user))
    return Status(Code::kInvalid,
                  "claim '" + rules.user_claim + "' is '" + Printable(identity.user, 80) +
                      "', which is no user's name here (1 to 64 letters, digits and . _ -); "
                      "--oidc-user-claim of the pool names another claim");
  identity.groups = TextsAt(claims, rules.groups_claim);
  return identity;
}

}  // namespace farcall::pool
