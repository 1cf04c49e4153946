// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/base/review_flags.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "pool/core/model/accounts.h"
#include "pool/k8s/api/token_review.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

// Anybody may ask for a login, and each costs the API server a request.
constexpr int kReviewsAtOnce = 4;

// One cluster: its API server, asked by a few at a time.
class Reviewer final {
 public:
  Reviewer(std::unique_ptr<k8s::ApiClient> api, std::string audience)
      : api_(std::move(api)), audience_(std::move(audience)) {}

  Result<pool::ProvenIdentity> Check(const std::string& token) {
    struct Count {
      std::atomic<int>& of;
      const int before = of.fetch_add(1);
      ~Count() { of.fetch_sub(1); }
    } asking{asking_};
    if (asking.before >= kReviewsAtOnce)
      return Status(Code::kUnavailable, "too many service accounts log in at once");
    Result<k8s::ServiceAccount> account = k8s::ReviewToken(api_.get(), token, audience_);
    if (!account.ok()) return account.status();
    // Neither a namespace nor an account has a '_': each has a name of its own.
    const std::string user = "k8s_" + account->space + "_" + account->name;
    if (!pool::IsAccountName(user))
      return Status(Code::kInvalid, "no user can be called " + Quoted(user) + ": it is too long");
    return pool::ProvenIdentity{user, account->uid, account->groups};
  }

 private:
  const std::unique_ptr<k8s::ApiClient> api_;
  const std::string audience_;
  std::atomic<int> asking_{0};
};

}  // namespace

void AddReviewFlags(CLI::App* command, ReviewFlags* flags) {
  command->add_option("--kube-api", flags->api.url,
                      "https:// URL of the API server of a Kubernetes cluster, whose service "
                      "accounts log in by `farcall login --id-token-file` (default: none)");
  command->add_option("--kube-ca", flags->api.ca,
                      "PEM file of the API server's authority (default: the system's)");
  command->add_option("--kube-token-file", flags->api.token_file,
                      "file whose first line is a token for the API server that may make "
                      "TokenReviews; it is read again for each");
  command
      ->add_option("--kube-audience", flags->audience,
                   "audience that the service accounts' tokens have to be for")
      ->capture_default_str();
  command->add_option("--kube-role", flags->roles,
                      "GROUP=ROLE or GROUP=ROLE@PROJECT: the role of service accounts in that "
                      "group, such as system:serviceaccounts:NAMESPACE; may be repeated");
  command
      ->add_option("--kube-hours", flags->hours,
                   "hours after which a token expires that a service account got by a login")
      ->check(CLI::Range(0.01, 8760.0))
      ->capture_default_str();
}

Status ReadReviewFlags(const ReviewFlags& flags, pool::LoginReview* review) {
  if (flags.api.url.empty()) {
    if (flags.api.token_file.empty() && flags.api.ca.empty() && flags.roles.empty()) return {};
    return {Code::kInvalid, "--kube-ca, --kube-token-file and --kube-role need --kube-api"};
  }
  for (const auto& [flag, path] :
       {std::pair("--kube-ca", &flags.api.ca), {"--kube-token-file", &flags.api.token_file}})
    if (!path->empty() && access(path->c_str(), R_OK) != 0)
      return {Code::kInvalid, std::string(flag) + " '" + *path + "': " + strerror(errno)};
  if (flags.audience.empty())
    return {Code::kInvalid, "--kube-audience '': name whom the tokens are for"};
  if (flags.roles.empty())
    return {Code::kInvalid,
            "--kube-api needs --kube-role: without one no service account may do anything"};
  for (const std::string& text : flags.roles) {
    Result<pool::GroupRole> role = pool::ReadGroupRole(text);
    if (!role.ok()) return {Code::kInvalid, "--kube-role: " + role.status().message()};
    review->roles.push_back(*role);
  }
  Result<std::unique_ptr<k8s::ApiClient>> api = k8s::ApiClient::Make(flags.api);
  if (!api.ok()) return {Code::kInvalid, "--kube-api: " + api.status().message()};
  auto reviewer = std::make_shared<Reviewer>(std::move(*api), flags.audience);
  review->issuer = flags.api.url;
  review->token_s = static_cast<int64_t>(flags.hours * 3600);
  review->check = [reviewer](const std::string& token) { return reviewer->Check(token); };
  return {};
}

}  // namespace farcall::cli
