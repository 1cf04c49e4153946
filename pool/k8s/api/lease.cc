// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/api/lease.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "proto/log_line.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

constexpr int kHttpConflict = 409;

// MicroTime of the API; for people, since nobody's clock is believed.
std::string NowText() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[64];
  const size_t size = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + size, sizeof(text) - size, ".%06ldZ", now.tv_nsec / 1000);
  return text;
}

int64_t SpecNumber(const Json& lease, const char* name, int64_t otherwise) {
  auto spec = lease.find("spec");
  if (spec == lease.end() || !spec->is_object()) return otherwise;
  auto at = spec->find(name);
  return at != spec->end() && at->is_number_integer() ? at->get<int64_t>() : otherwise;
}

}  // namespace

std::string NewLeaseIdentity() {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::random_device random;
  char number[20];
  std::snprintf(number, sizeof(number), "%08x%08x", random(), random());
  return std::string(host) + "_" + number;
}

void LeaseHolder::Start() {
  thread_ = std::thread([this] { Run(); });
}

void LeaseHolder::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool LeaseHolder::leads() {
  std::lock_guard lock(mutex_);
  return Clock::now() < leads_until_;
}

bool LeaseHolder::is_others() {
  std::lock_guard lock(mutex_);
  return is_others_;
}

Status LeaseHolder::Try() {
  const std::string path =
      "/apis/coordination.k8s.io/v1/namespaces/" + place_.space + "/leases/" + place_.name;
  ApiAnswer answer;
  FARCALL_TRY(api_->Get(path, &answer));
  Json lease = answer.body;
  const std::string holder = TextAt(lease, "spec", "holderIdentity");
  const std::string version = TextAt(lease, "metadata", "resourceVersion");
  const int64_t lasts = std::clamp<int64_t>(SpecNumber(lease, "leaseDurationSeconds", 15), 1, 300);
  const bool is_ours = holder == place_.identity;
  if (!is_ours && !holder.empty()) {
    if (version != seen_) {
      seen_ = version;
      seen_at_ = Clock::now();
    }
    std::lock_guard lock(mutex_);
    is_others_ = Clock::now() < seen_at_ + seconds(lasts);
    if (is_others_) return {};
  }
  const Clock::time_point sent = Clock::now();
  Json& spec = lease["spec"];
  if (!spec.is_object()) spec = Json::object();
  if (!is_ours) {
    spec["leaseTransitions"] = SpecNumber(lease, "leaseTransitions", 0) + 1;
    spec["acquireTime"] = NowText();
  }
  spec["holderIdentity"] = place_.identity;
  spec["leaseDurationSeconds"] = place_.seconds;
  spec["renewTime"] = NowText();
  const Status written = api_->Write("PUT", path, lease, &answer);
  if (answer.status == kHttpConflict) return {};  // another one was first
  FARCALL_TRY(written);
  std::lock_guard lock(mutex_);
  leads_until_ = sent + seconds(place_.seconds) * 2 / 3;
  is_others_ = false;
  return {};
}

void LeaseHolder::Return() {
  const std::string path =
      "/apis/coordination.k8s.io/v1/namespaces/" + place_.space + "/leases/" + place_.name;
  ApiAnswer answer;
  if (!api_->Get(path, &answer).ok() ||
      TextAt(answer.body, "spec", "holderIdentity") != place_.identity)
    return;
  Json lease = answer.body;
  lease["spec"]["holderIdentity"] = "";
  (void)api_->Write("PUT", path, lease, &answer);
}

void LeaseHolder::Run() {
  bool led = false;
  std::string said;
  while (true) {
    const Status tried = Try();
    if (!tried.ok() && tried.message() != said)
      LogLine(LogSeverity::kWarn, "k8s-controller",
              "lease " + place_.name + ": " + tried.message());
    said = tried.message();
    const bool leads_now = leads();
    if (leads_now != led) on_change_(leads_now);
    led = leads_now;
    std::unique_lock lock(mutex_);
    const auto pause = seconds(std::max(place_.seconds / 5, 1));
    wake_.wait_for(lock, pause, [this] { return is_stopped_; });
    if (!is_stopped_) continue;
    leads_until_ = {};
    lock.unlock();
    if (led) Return();
    return;
  }
}

}  // namespace farcall::k8s
