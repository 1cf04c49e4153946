// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/metrics/external_metrics.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "pool/core/model/selector.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

struct Metric {
  const char* name;
  uint64_t (*of)(const ClaimUse&);
  bool is_longest = false;  // of all claims, and not their sum
  bool is_milli = false;
};

constexpr Metric kMetrics[] = {
    {"farcall_vgpu_use", [](const ClaimUse& use) { return use.time_milli; }, false, true},
    {"farcall_vgpu_memory_bytes", [](const ClaimUse& use) { return use.memory_bytes; }},
    {"farcall_vgpu_memory_quota_bytes", [](const ClaimUse& use) { return use.quota_bytes; }},
    {"farcall_vgpus", [](const ClaimUse& use) -> uint64_t { return use.gpus; }},
    {"farcall_queue_length", [](const ClaimUse& use) -> uint64_t { return use.waits ? 1 : 0; }},
    {"farcall_queue_wait_seconds",
     [](const ClaimUse& use) { return static_cast<uint64_t>(use.waited_s); }, true},
};

const Metric* FindMetric(const std::string& name) {
  auto at = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                         [&](const Metric& metric) { return name == metric.name; });
  return at == std::end(kMetrics) ? nullptr : at;
}

bool Takes(const pool::Selector& selector, const std::map<std::string, std::string>& labels) {
  return std::all_of(selector.terms.begin(), selector.terms.end(), [&](const pool::Term& term) {
    auto label = labels.find(term.key);
    bool meets = label != labels.end();
    if (meets && term.wants_value)
      meets = std::find(term.values.begin(), term.values.end(), label->second) != term.values.end();
    return meets != term.is_negated;
  });
}

std::string TimeText(int64_t seconds) {
  const time_t at = seconds;
  tm parts{};
  gmtime_r(&at, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json Item(const Metric& metric, const Json& labels, uint64_t value, const std::string& time) {
  return {{"metricName", metric.name},
          {"metricLabels", labels},
          {"timestamp", time},
          {"value", std::to_string(value) + (metric.is_milli && value != 0 ? "m" : "")}};
}

}  // namespace

bool IsMetric(const std::string& name) {
  return FindMetric(name) != nullptr;
}

Json MetricList() {
  Json resources = Json::array();
  for (const Metric& metric : kMetrics)
    resources.push_back({{"name", metric.name},
                         {"singularName", ""},
                         {"namespaced", true},
                         {"kind", "ExternalMetricValueList"},
                         {"verbs", {"get"}}});
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", kMetricsGroupVersion},
          {"resources", std::move(resources)}};
}

Result<Json> MetricValues(const std::string& name, const std::string& space,
                          const std::string& selector, const std::vector<ClaimUse>& uses,
                          int64_t now_s) {
  const Metric* metric = FindMetric(name);
  if (metric == nullptr) return Status(Code::kRefused, "there is no metric " + Quoted(name));
  pool::Selector wanted;
  if (!selector.empty())
    if (std::string fault = pool::ParseSelector(selector, &wanted); !fault.empty())
      return Status(Code::kInvalid, "labelSelector: " + fault);
  const std::string time = TimeText(now_s);
  Json items = Json::array();
  uint64_t longest = 0;
  for (const ClaimUse& use : uses) {
    if (use.space != space || !Takes(wanted, use.labels)) continue;
    const uint64_t value = metric->of(use);
    longest = std::max(longest, value);
    if (metric->is_longest || value == 0) continue;
    Json labels = Json::object();
    for (const auto& [key, text] : use.labels) labels[key] = Printable(text, kMaxMessageBytes);
    labels["claim"] = use.claim;
    items.push_back(Item(*metric, labels, value, time));
  }
  if (items.empty()) items.push_back(Item(*metric, Json::object(), longest, time));
  return Json{{"kind", "ExternalMetricValueList"},
              {"apiVersion", kMetricsGroupVersion},
              {"metadata", Json::object()},
              {"items", std::move(items)}};
}

}  // namespace farcall::k8s
