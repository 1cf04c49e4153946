// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/session_setup.h"

#include <algorithm>
#include <utility>

#include "proto/handshake/fabric_transport.h"
#include "proto/handshake/session_features.h"
#include "server/supervisor/services/host_name.h"
#include "server/worker/sandbox/worker_files.h"
#include "settings/version.h"

namespace farcall::server {

namespace {

constexpr uint32_t kHeartbeatMilliseconds = 1000;

}  // namespace

SessionSetup::SessionSetup(const ServeOptions& options, const ProbedDevices& devices,
                           const AdmissionPolicy& policy)
    : options_(options),
      devices_(devices),
      policy_(policy),
      readable_(ReadableFiles(devices.choice.path)) {}

void SessionSetup::OfferFabric(const Hello& hello, Welcome* welcome) const {
  if (options_.OffersVerbs() && AsksForFabric(kVerbsTransport, hello))
    GrantFabric(kVerbsTransport, welcome);
  else if (options_.OffersUcx() && AsksForFabric(kUcxTransport, hello))
    GrantFabric(kUcxTransport, welcome);
}

void SessionSetup::Describe(const Hello& hello, Welcome* welcome) const {
  welcome->driver_version = devices_.report.driver_version;
  welcome->server_version = kServerVersion;
  welcome->server_host = HostName();
  welcome->device_kind = devices_.choice.kind;
  welcome->libraries = libraries_.ForClients();
  if (HasFeature(hello, SessionFeature::kSharedMemory) && !shm_path_.empty()) {
    welcome->features |= FeatureBit(SessionFeature::kSharedMemory);
    welcome->shm_path = shm_path_;
  }
  OfferFabric(hello, welcome);
}

bool SessionSetup::UsesFabric(const Hello& hello) const {
  Welcome welcome;
  OfferFabric(hello, &welcome);
  return farcall::UsesFabric(kUcxTransport, welcome) ||
         farcall::UsesFabric(kVerbsTransport, welcome);
}

Welcome SessionSetup::WelcomeOf(const WorkerSession& session, const Hello& hello,
                                const Facts& facts) const {
  Welcome welcome;
  welcome.session = session.session;
  welcome.lanes = policy_.LanesFor(session.arrival);
  welcome.grace_ms = options_.grace_seconds * 1000;
  welcome.heartbeat_ms = kHeartbeatMilliseconds;
  Describe(hello, &welcome);
  if (farcall::UsesFabric(kVerbsTransport, welcome) && options_.lanes == 0) {
    // A card is within reach, however slow the socket's way to it. And lanes lock memory.
    constexpr uint32_t kLanesOfCards = 2;
    welcome.lanes = std::min(welcome.lanes, kLanesOfCards);
  }
  if (options_.compresses && HasFeature(hello, SessionFeature::kPackedChunks))
    welcome.features |= FeatureBit(SessionFeature::kPackedChunks);
  for (size_t i = 0; i < session.devices.size(); ++i) {
    welcome.devices.push_back(devices_.report.devices[static_cast<size_t>(session.devices[i])]);
    DeviceSnapshot& snapshot = welcome.devices.back();
    snapshot.total_bytes = facts.quotas_bytes[i];
    std::vector<uint8_t> peers = std::move(snapshot.peer_access);
    snapshot.peer_access.clear();
    for (int other : session.devices) {
      auto index = static_cast<size_t>(other);
      snapshot.peer_access.push_back(index < peers.size() ? peers[index] : uint8_t{0});
    }
  }
  return welcome;
}

WorkerSetup SessionSetup::Make(const WorkerSession& session, const Hello& hello,
                               const SessionFolders& folders, const Facts& facts) const {
  WorkerSetup setup;
  setup.device_path = devices_.choice.path;
  setup.device_kind = devices_.choice.kind;
  setup.log_level = options_.log_level;
  setup.has_images = folders.images.fd() >= 0;
  setup.kernel_variable = folders.kernels.fd() < 0 ? "" : KernelVariable(setup.device_kind);
  setup.readable = readable_;
  setup.swaps = facts.swaps;
  setup.trust_tenants = options_.trust_tenants;
  setup.reports_worker_calls = options_.reports_worker_calls;
  setup.debuggable = options_.debuggable;
  setup.is_only_tenant = facts.is_only_tenant;
  setup.answer = facts.answer;
  setup.hello = hello;
  // What opens something stays here.
  setup.hello.vgpu.clear();
  setup.hello.lease.clear();
  setup.hello.claim.clear();
  setup.hello.credentials.clear();
  setup.welcome = WelcomeOf(session, hello, facts);
  return setup;
}

}  // namespace farcall::server
