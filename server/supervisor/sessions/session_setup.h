// SPDX-License-Identifier: Apache-2.0
// What a session's worker and its client are told of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/handshake/exchange_keys.h"
#include "proto/handshake/handshake.h"
#include "server/library/library_inventory.h"
#include "server/supervisor/images/tenant_folders.h"
#include "server/supervisor/options/serve_options.h"
#include "server/supervisor/sessions/admission_policy.h"
#include "server/supervisor/sessions/worker_session.h"
#include "server/worker/sandbox/worker_setup.h"
#include "server/worker/worker_process.h"

namespace farcall::server {

//   Thread  any
class SessionSetup {
 public:
  // All outlive it.
  SessionSetup(const ServeOptions& options, const ProbedDevices& devices,
               const AdmissionPolicy& policy);

  // The socket of shm://, of which clients are told who come over tcp://. Before all others.
  void OfferSharedMemoryAt(const std::string& path) { shm_path_ = path; }

  // The server: its version, its host, its kind of device, libraries; and of the transports that
  // the client asks for those that it may take.
  void Describe(const Hello& hello, Welcome* welcome) const;
  // Its worker reaches the network or a card, for a transport that the client is offered.
  bool UsesFabric(const Hello& hello) const;

  // What else a setup holds.
  struct Facts {
    AnswerKey answer;
    std::vector<uint64_t> quotas_bytes;  // of the session's devices, in its order
    bool swaps = false;
    bool is_only_tenant = false;
  };
  // All but the state of the client's connection.
  WorkerSetup Make(const WorkerSession& session, const Hello& hello, const SessionFolders& folders,
                   const Facts& facts) const;

 private:
  void OfferFabric(const Hello& hello, Welcome* welcome) const;
  Welcome WelcomeOf(const WorkerSession& session, const Hello& hello, const Facts& facts) const;

  const ServeOptions& options_;
  const ProbedDevices& devices_;
  const AdmissionPolicy& policy_;
  const std::vector<std::string> readable_;  // by workers
  std::string shm_path_;                     // empty: none
  mutable LibraryInventory libraries_;
};

}  // namespace farcall::server
