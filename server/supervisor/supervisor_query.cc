// SPDX-License-Identifier: Apache-2.0
// What `farcall devices` and `farcall doctor` ask: an answer without a session.
#include <algorithm>
#include <chrono>

#include "proto/handshake/query_answer.h"
#include "proto/handshake/session_features.h"
#include "server/supervisor/supervisor.h"
#include "transport/handshake.h"

namespace farcall::server {

namespace {

// The answer fits a new connection's send buffer unless the devices are many. A client that does
// not read holds one of the few judges, so it is not waited for longer.
constexpr std::chrono::milliseconds kPatience(100);
// Up to the compute capability: what is asked of a device that nobody uses.
constexpr size_t kAttributes = 77;

}  // namespace

void Supervisor::AnswerQuery(std::unique_ptr<Channel> channel, const Client& client) {
  if (pool_.is_in_pool()) {  // its devices are the pool's to tell of, to its users
    return Refuse(*channel,
                  {Code::kRefused,
                   "this server belongs to a pool and takes only sessions that the pool sends; ask "
                   "the pool, at pool://host:port"});
  }
  QueryAnswer answer;
  Welcome& welcome = answer.welcome;
  {
    std::lock_guard lock(mutex_);
    welcome.devices = devices_.report.devices;
    for (size_t i = 0; i < welcome.devices.size(); ++i) {
      const auto device = static_cast<int>(i);
      const uint64_t total = welcome.devices[i].total_bytes;
      const uint64_t left = total - std::min(total, charges_.ledger().charged_on_device(device));
      const uint64_t quota = policy_.QuotaFor(client.hello.quota.memory_bytes, total);
      answer.free_bytes.push_back(std::min(swap_.is_on() ? quota : left, quota));
      welcome.devices[i].total_bytes = quota;
    }
  }
  for (DeviceSnapshot& device : welcome.devices) {
    device.attributes.resize(std::min(device.attributes.size(), kAttributes));
    device.limits.clear();
    device.peer_access.clear();
  }
  welcome.features = FeatureBit(SessionFeature::kQuery);
  setup_.Describe(client.hello, &welcome);
  (void)SendQueryAnswer(*channel, client.keys.answer, answer, Clock::now() + kPatience);
}

}  // namespace farcall::server
