// SPDX-License-Identifier: Apache-2.0
// external.metrics.k8s.io/v1beta1: what a HorizontalPodAutoscaler can scale on.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pool/k8s/metrics/usage_view.h"

namespace farcall::k8s {

inline constexpr char kMetricsGroup[] = "external.metrics.k8s.io";
inline constexpr char kMetricsGroupVersion[] = "external.metrics.k8s.io/v1beta1";

// The APIResourceList of that group: one for each metric.
nlohmann::json MetricList();
bool IsMetric(const std::string& name);

// The ExternalMetricValueList of a metric: of the namespace's claims whose labels the selector
// takes. An autoscaler adds up the values of a list, so a metric of which there is one for all
// claims has one item. None of 0 claims is empty: one without items stops the autoscaler.
//   selector  of Kubernetes: "app=train,tier in (a,b)"; "": all
//   Errors    kInvalid (the selector), kRefused (there is no such metric)
Result<nlohmann::json> MetricValues(const std::string& metric, const std::string& space,
                                    const std::string& selector, const std::vector<ClaimUse>& uses,
                                    int64_t now_s);

}  // namespace farcall::k8s
