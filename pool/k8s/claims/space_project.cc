// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/claims/space_project.h"

#include "generated/proto/pool.pb.h"
#include "pool/k8s/api/list_watch.h"

namespace farcall::k8s {

namespace {

namespace pb = farcall::pool::v1;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAskPause{10};
constexpr int kMaxPages = 100;

}  // namespace

Status SpaceProjects::List(std::set<std::string>* names) {
  std::string after;
  for (int page = 0; page < kMaxPages; ++page) {
    pb::ProjectList list;
    FARCALL_TRY(pool_->Get(
        "/v1/projects?limit=1000" + (after.empty() ? "" : "&page_token=" + Escaped(after)), &list));
    for (const pb::Project& project : list.projects()) names->insert(project.name());
    after = list.next_page_token();
    if (after.empty()) return {};
  }
  return {Code::kMalformed, "the pool's list of projects has no end"};
}

Result<std::string> SpaceProjects::Of(const std::string& space) {
  if (root_.empty()) return std::string();
  std::lock_guard lock(mutex_);
  if (asked_ == Clock::time_point{} || Clock::now() >= asked_ + kAskPause) {
    std::set<std::string> names;
    FARCALL_TRY(List(&names));
    known_ = std::move(names);
    asked_ = Clock::now();
  }
  const std::string own = root_ + "/" + space;
  return known_.count(own) != 0 ? own : root_;
}

}  // namespace farcall::k8s
