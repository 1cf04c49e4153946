// SPDX-License-Identifier: Apache-2.0
#include "server/control_plane/quota_request.h"

#include <optional>
#include <string>
#include <tuple>

#include "proto/printable.h"
#include "proto/priority.h"
#include "settings/byte_rate.h"
#include "settings/milli.h"

namespace farcall::control_plane {

namespace {

Status Wrong(const std::string& text) {
  return {Code::kInvalid, text};
}

}  // namespace

Status ReadQuota(const control::v1::SetQuotaRequest& request, server::QuotaChange* change) {
  if (!request.has_memory_bytes() && !request.has_share_milli() && !request.has_limit_milli() &&
      !request.has_priority() && !request.has_net_bytes_per_s())
    return Wrong("nothing to change: give memory, share, limit, priority or network");
  if (request.has_memory_bytes()) change->memory_bytes = request.memory_bytes();
  for (auto [is_there, asked, into] :
       {std::tuple(request.has_share_milli(), request.share_milli(), &change->share_milli),
        std::tuple(request.has_limit_milli(), request.limit_milli(), &change->limit_milli)}) {
    if (!is_there) continue;
    if (asked > kWholeMilli)
      return Wrong("share or limit " + std::to_string(asked) + ": 0 to 1000 thousandths");
    *into = asked;
  }
  if (request.has_net_bytes_per_s()) {
    if (request.net_bytes_per_s() > kMaxBytesPerSecond)
      return Wrong("network " + std::to_string(request.net_bytes_per_s()) + ": bytes a second");
    change->net_bytes_per_s = request.net_bytes_per_s();
  }
  if (request.has_priority()) {
    const std::string& name = request.priority();
    const std::optional<uint8_t> number = PriorityNumber(name);
    if (!number) return Wrong("priority '" + Printable(name, 32) + "': high, normal or low");
    change->priority = static_cast<WirePriority>(*number);
  }
  return {};
}

}  // namespace farcall::control_plane
