// SPDX-License-Identifier: Apache-2.0
#include "server/worker/connection/skipped_report.h"

#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/device/device_library.h"

namespace farcall::server {

void ReportSkipped(const DriverApi& api, int supervisor) {
  constexpr size_t kMaxNamed = 64;
  const auto skipped = SkippedKernels(api);
  if (!skipped) return;
  control::Skipped rest{.kernel = "(others)"};
  for (size_t i = 0; i < skipped->size(); ++i) {
    const SkippedKernel& kernel = (*skipped)[i];
    if (i >= kMaxNamed) {
      rest.launches += kernel.launches;
      continue;
    }
    (void)control::SendToSupervisor(
        supervisor, control::Skipped{.kernel = kernel.name, .launches = kernel.launches});
  }
  if (rest.launches != 0) (void)control::SendToSupervisor(supervisor, rest);
}

}  // namespace farcall::server
