// SPDX-License-Identifier: Apache-2.0
// What somebody shows as an OpenID provider's token: {u8 mode}, then a token as it came (mode & 1 =
// 0), which nobody has signed and which is never good; or claims that the provider's key signs
// here. Those that are good are of this pool and name a user.
#include <cjose/cjose.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "pool/core/model/accounts.h"
#include "pool/oidc/id_token.h"

namespace {

using namespace farcall::pool;
using Json = nlohmann::json;

constexpr int64_t kNow = 1'800'000'000;

void Fail(const char* what) {
  std::fprintf(stderr, "id_token: %s\n", what);
  std::abort();
}

struct Key {
  cjose_jwk_t* pair;
  Json set;
  Key() {
    cjose_err error{};
    pair = cjose_jwk_create_EC_random(CJOSE_JWK_EC_P_256, &error);
    if (pair == nullptr || !cjose_jwk_set_kid(pair, "one", 3, &error)) Fail("no key");
    char* text = cjose_jwk_to_json(pair, false, &error);
    Json key = Json::parse(text);
    std::free(text);
    set = {{"keys", Json::array({std::move(key)})}};
  }
};

std::string Signed(const Key& key, const uint8_t* claims, size_t bytes) {
  cjose_err error{};
  cjose_header_t* header = cjose_header_new(&error);
  cjose_header_set(header, CJOSE_HDR_ALG, "ES256", &error);
  cjose_header_set(header, CJOSE_HDR_KID, "one", &error);
  cjose_jws_t* jws = cjose_jws_sign(key.pair, header, claims, bytes, &error);
  cjose_header_release(header);
  if (jws == nullptr) return "";
  const char* text = nullptr;
  std::string token = cjose_jws_export(jws, &text, &error) ? text : "";
  cjose_jws_release(jws);
  return token;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Key key;
  if (size == 0) return 0;
  const IdTokenRules rules{"https://issuer.example", "farcall"};
  const bool is_signed = (data[0] & 1) != 0;
  const std::string token = is_signed
                                ? Signed(key, data + 1, size - 1)
                                : std::string(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto good = CheckIdToken(token, key.set, rules, kNow);
  (void)KeyIdOf(token);
  if (!good.ok()) {
    if (good.status().message().empty()) Fail("no reason");
    return 0;
  }
  if (!is_signed) Fail("a token that nobody signed is good");
  const Json claims = Json::parse(data + 1, data + size, nullptr, false);
  if (claims["iss"] != rules.issuer || !IsAccountName(good->user) || good->subject.empty() ||
      good->groups.size() > 1000)
    Fail("a token that says something else is good");
  return 0;
}
