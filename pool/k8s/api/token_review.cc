// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/api/token_review.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "proto/printable.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxTokenBytes = 16 << 10;
constexpr size_t kMaxGroups = 256;
constexpr std::string_view kAccount = "system:serviceaccount:";

// Three parts of base64url.
bool IsJwt(std::string_view token) {
  return !token.empty() && token.size() <= kMaxTokenBytes &&
         std::count(token.begin(), token.end(), '.') == 2 &&
         std::all_of(token.begin(), token.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

std::vector<std::string> Texts(const Json& object, const char* name) {
  std::vector<std::string> texts;
  auto at = object.find(name);
  if (at == object.end() || !at->is_array()) return texts;
  for (const Json& text : *at)
    if (text.is_string() && texts.size() < kMaxGroups) texts.push_back(text.get<std::string>());
  return texts;
}

}  // namespace

Result<ServiceAccount> ReviewToken(ApiClient* api, const std::string& token,
                                   const std::string& audience) {
  if (!IsJwt(token))
    return Status(Code::kMalformed, "this is no token of a Kubernetes service account");
  const Json review = {{"apiVersion", "authentication.k8s.io/v1"},
                       {"kind", "TokenReview"},
                       {"spec", {{"token", token}, {"audiences", Json::array({audience})}}}};
  ApiAnswer answer;
  FARCALL_TRY(api->Write("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review, &answer));
  const Json& status = Member(answer.body, "status");
  auto good = status.find("authenticated");
  if (good == status.end() || !good->is_boolean() || !good->get<bool>()) {
    const std::string why = Text(status, "error");
    return Status(Code::kRefused, "the cluster does not know this token for audience " +
                                      Quoted(audience) + (why.empty() ? "" : ": " + why));
  }
  // An API server that does not know of audiences names none.
  const std::vector<std::string> audiences = Texts(status, "audiences");
  if (std::find(audiences.begin(), audiences.end(), audience) == audiences.end())
    return Status(Code::kRefused, "the token is not for audience " + Quoted(audience));
  const Json& user = Member(status, "user");
  const std::string username = Text(user, "username");
  const std::string_view rest =
      std::string_view(username).substr(std::min(username.size(), kAccount.size()));
  const size_t colon = rest.find(':');
  ServiceAccount account;
  if (username.rfind(kAccount, 0) == 0 && colon != std::string_view::npos)
    account = {std::string(rest.substr(0, colon)), std::string(rest.substr(colon + 1)),
               Text(user, "uid"), Texts(user, "groups")};
  if (!IsName(account.space) || !IsName(account.name) || !IsName(account.uid))
    return Status(Code::kRefused, Quoted(username) + " is no service account");
  return account;
}

}  // namespace farcall::k8s
