// SPDX-License-Identifier: Apache-2.0
#include "pool/controller/webhook.h"

#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "proto/log_line.h"

namespace farcall::pool {

namespace {

constexpr Ms kLook = 1000;
constexpr int kPatienceS = 5;
constexpr std::array<std::string_view, 3> kAlways = {"claim_preempting", "claim_parking",
                                                     "claim_parked"};
// Of claims that were warned.
constexpr std::array<std::string_view, 4> kAfterwards = {"claim_active", "claim_idle",
                                                         "claim_pending", "claim_releasing"};

template <size_t N>
bool Has(const std::array<std::string_view, N>& kinds, const std::string& kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

Status Webhook::Start(const std::string& url) {
  const size_t host = url.find("://") == std::string::npos ? 0 : url.find("://") + 3;
  const size_t slash = url.find('/', host);
  const bool is_url = url.rfind("http://", 0) == 0 || url.rfind("https://", 0) == 0;
  if (!is_url || host == url.size() || slash == host)
    return {Code::kInvalid,
            "--preempt-webhook '" + url + "': write http://host:port/path or https://..."};
  base_ = url.substr(0, slash);
  path_ = slash == std::string::npos ? "/" : url.substr(slash);
  thread_ = std::thread([this] { Loop(); });
  return {};
}

void Webhook::Stop() {
  is_stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Webhook::Loop() {
  uint64_t number = 0;
  (void)controller_->EventsAfter(&number, 0, std::nullopt);  // what was before this is passed over
  std::set<std::string> warned;
  bool was_told = true;
  while (!is_stopping_ && !controller_->is_stopping()) {
    for (const v1::Event& event : controller_->EventsAfter(&number, kLook, std::nullopt)) {
      const bool is_always = Has(kAlways, event.kind());
      if (!is_always && (warned.count(event.claim()) == 0 || !Has(kAfterwards, event.kind())))
        continue;
      if (is_always)
        warned.insert(event.claim());
      else
        warned.erase(event.claim());
      const bool is_told = Tell(event) || Tell(event);
      if (!is_told && was_told)
        LogLine(LogSeverity::kWarn, "pool",
                "webhook " + base_ + path_ + " takes nothing; it is tried for each event");
      was_told = is_told;
      if (is_stopping_) return;
    }
  }
}

bool Webhook::Tell(const v1::Event& event) const {
  std::string body;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  (void)google::protobuf::util::MessageToJsonString(event, &body, options);
  httplib::Client client(base_);
  client.set_connection_timeout(kPatienceS);
  client.set_read_timeout(kPatienceS);
  const httplib::Result result = client.Post(path_.c_str(), body, "application/json");
  return result && result->status < 300;
}

}  // namespace farcall::pool
