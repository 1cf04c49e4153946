// SPDX-License-Identifier: Apache-2.0
#include "pool/oidc/provider.h"

#include <httplib.h>

#include <algorithm>

#include "transport/url.h"

namespace farcall::pool {

namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

constexpr size_t kMaxBytes = 1 << 20;
constexpr seconds kOld{3600}, kBetween{10};

// Whether a set has the key of that id; each has the one of none.
bool HasKey(const Json& set, const std::string& id) {
  const Json& keys = set["keys"];
  return id.empty() || std::any_of(keys.begin(), keys.end(), [&](const Json& key) {
           return key.is_object() && key.contains("kid") && key["kid"] == id;
         });
}

}  // namespace

Result<GroupRole> ReadGroupRole(const std::string& text) {
  const size_t equals = text.rfind('=');
  const size_t at = text.find('@', equals == std::string::npos ? 0 : equals);
  if (equals != std::string::npos && equals != 0) {
    const std::optional<Role> role = ReadRole(
        text.substr(equals + 1, at == std::string::npos ? std::string::npos : at - equals - 1));
    const std::string project = at == std::string::npos ? "" : text.substr(at + 1);
    const bool is_whole = at == std::string::npos || !project.empty();
    if (role && is_whole && !(*role == Role::kOperator && !project.empty()))
      return GroupRole{text.substr(0, equals), {*role, project}};
  }
  return Status(Code::kInvalid, "--oidc-role '" + text +
                                    "': write GROUP=ROLE or GROUP=ROLE@PROJECT, where ROLE is "
                                    "viewer, user, admin, or operator (of no project)");
}

Status CheckIssuer(const std::string& issuer) {
  const bool is_near = issuer.rfind("http://", 0) == 0 &&
                       IsLoopbackUrl("tcp://" + issuer.substr(7, issuer.find('/', 7) - 7));
  if (issuer.rfind("https://", 0) == 0 || is_near) return {};
  return {Code::kInvalid, "URL '" + issuer +
                              "' of the provider: https://, or http:// on this machine; others "
                              "could answer in its place"};
}

Result<Json> FetchJson(const std::string& url, const std::string& ca) {
  if (Status checked = CheckIssuer(url); !checked.ok()) return checked;
  const size_t slash = url.find('/', url.find("://") + 3);
  const std::string path = slash == std::string::npos ? "/" : url.substr(slash);
  httplib::Client client(url.substr(0, slash));
  if (!ca.empty()) client.set_ca_cert_path(ca);
  client.set_connection_timeout(5);
  client.set_read_timeout(5);
  std::string body;
  httplib::Result result = client.Get(path, [&](const char* data, size_t bytes) {
    body.append(data, std::min(bytes, kMaxBytes + 1 - std::min(body.size(), kMaxBytes)));
    return body.size() <= kMaxBytes;
  });
  if (body.size() > kMaxBytes) return Status(Code::kMalformed, url + ": more than 1 MiB");
  if (!result) return Status(Code::kUnavailable, url + ": " + httplib::to_string(result.error()));
  if (result->status != 200)
    return Status(Code::kUnavailable, url + ": HTTP " + std::to_string(result->status));
  Json parsed = Json::parse(body, nullptr, false);
  if (!parsed.is_object()) return Status(Code::kMalformed, url + ": no JSON object");
  return parsed;
}

Result<Json> Discover(const std::string& issuer, const std::string& ca) {
  std::string base = issuer;
  while (!base.empty() && base.back() == '/') base.pop_back();
  Result<Json> found = FetchJson(base + "/.well-known/openid-configuration", ca);
  // Else one provider could answer for another.
  if (found.ok() && (!found->contains("issuer") || (*found)["issuer"] != issuer))
    return Status(Code::kMalformed, base + ": says that it is another issuer");
  return found;
}

Status OidcProvider::Refresh() {
  Result<Json> found = Discover(options_.rules.issuer, options_.ca);
  if (!found.ok()) return found.status();
  auto address = found->find("jwks_uri");
  if (address == found->end() || !address->is_string())
    return {Code::kMalformed, options_.rules.issuer + ": names no jwks_uri"};
  Result<Json> keys = FetchJson(address->get<std::string>(), options_.ca);
  if (!keys.ok()) return keys.status();
  auto list = keys->find("keys");
  if (list == keys->end() || !list->is_array())
    return {Code::kMalformed, address->get<std::string>() + ": no key set"};
  std::lock_guard lock(mutex_);
  keys_ = std::make_shared<const Json>(std::move(*keys));
  refreshed_ = Clock::now();
  return {};
}

std::shared_ptr<const Json> OidcProvider::Known(bool* is_old) {
  std::lock_guard lock(mutex_);
  *is_old = keys_ == nullptr || Clock::now() - refreshed_ > kOld;
  return keys_;
}

Result<ProvenIdentity> OidcProvider::Check(const std::string& id_token, int64_t now_unix) {
  Result<std::string> key = KeyIdOf(id_token);
  if (!key.ok()) return key.status();
  bool is_old = false;
  std::shared_ptr<const Json> keys = Known(&is_old);
  Status refreshed;
  if (is_old || !HasKey(*keys, *key)) {
    std::unique_lock asking(asking_, std::try_to_lock);
    const bool may_ask =
        asking && (asked_ == Clock::time_point{} || Clock::now() - asked_ > kBetween);
    if (may_ask) {
      refreshed = Refresh();
      asked_ = Clock::now();
      keys = Known(&is_old);
    }
  }
  // Those that are known stay good while the provider is away.
  if (keys == nullptr)
    return Status(Code::kUnavailable, "the provider's keys are not known" +
                                          (refreshed.ok() ? std::string(": try again in a moment")
                                                          : ": " + refreshed.message()));
  return CheckIdToken(id_token, *keys, options_.rules, now_unix);
}

std::vector<RoleBinding> RolesOf(const std::vector<GroupRole>& table,
                                 const std::vector<std::string>& groups) {
  std::vector<RoleBinding> roles;
  for (const GroupRole& each : table) {
    const bool is_in = std::find(groups.begin(), groups.end(), each.group) != groups.end();
    if (is_in && std::find(roles.begin(), roles.end(), each.binding) == roles.end())
      roles.push_back(each.binding);
  }
  std::stable_sort(roles.begin(), roles.end(),
                   [](const RoleBinding& a, const RoleBinding& b) { return a.role > b.role; });
  return roles;
}

bool Gives(const std::vector<GroupRole>& table, const RoleBinding& binding) {
  return std::any_of(table.begin(), table.end(),
                     [&](const GroupRole& each) { return each.binding == binding; });
}

}  // namespace farcall::pool
