// SPDX-License-Identifier: Apache-2.0
// In place of verbs:// in a build without <infiniband/verbs.h>.
#include "transport/verbs/verbs_channel.h"

namespace farcall {
namespace {

Status Absent() {
  return {Code::kUnavailable,
          "verbs: this build has no RDMA; install libibverbs-dev and build again"};
}

}  // namespace

Result<FabricEndPointer> MakeVerbsEnd(VerbsDevice&, VerbsRole, VerbsUse) {
  return Absent();
}
Result<VerbsDevice*> VerbsDeviceOfProcess() {
  return Absent();
}
std::string VerbsDeviceText(const VerbsDevice&) {
  return {};
}

}  // namespace farcall
