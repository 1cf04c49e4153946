// SPDX-License-Identifier: Apache-2.0
// What workers say of shared objects (shared_objects.h).
#include <utility>

#include "server/supervisor/supervisor.h"

namespace farcall::server {

void Supervisor::OnMessage(Worker& worker, const control::Share& message, int* descriptor) {
  const int control = worker.process.control;
  (void)Tell(control, shared_.Share(control, worker.vgpu, charges_.Find(control, message.device),
                                    message, descriptor));
}

void Supervisor::OnMessage(Worker& worker, const control::Redeem& message) {
  const int control = worker.process.control;
  int descriptor = -1;
  control::RedeemReply answer = shared_.Redeem(control, worker.vgpu, message, &descriptor);
  (void)Tell(control, std::move(answer), descriptor);
}

void Supervisor::OnMessage(Worker& worker, const control::Drop& message) {
  shared_.Drop(worker.process.control, message.token);
}

}  // namespace farcall::server
