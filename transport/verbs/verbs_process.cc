// SPDX-License-Identifier: Apache-2.0
// The card of this process.
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "transport/verbs/verbs_channel.h"
#include "transport/verbs/verbs_device.h"

namespace farcall {

Result<VerbsDevice*> VerbsDeviceOfProcess() {
  static std::mutex mutex;
  static VerbsDevice* device = nullptr;
  static pid_t owner = 0;
  std::lock_guard lock(mutex);
  if (device != nullptr) {
    return owner == getpid()
               ? Result<VerbsDevice*>(device)
               : Status(Code::kUnavailable,
                        "verbs: this process was forked from one that uses RDMA already");
  }
  const char* text = std::getenv(kVerbsDeviceVariable);
  Result<VerbsChoice> choice = ParseVerbsChoice(text == nullptr ? "" : text);
  if (!choice.ok()) {
    return Status(choice.status().code(),
                  std::string("verbs: ") + kVerbsDeviceVariable + ": " + choice.status().message());
  }
  Result<const VerbsApi*> api = LoadVerbs();
  if (!api.ok()) return Status(api.status().code(), "verbs: " + api.status().message());
  Result<std::unique_ptr<VerbsDevice>> opened = VerbsDevice::Open(**api, *choice);
  if (!opened.ok()) return opened.status();
  owner = getpid();
  device = opened->release();
  return device;
}

std::string VerbsDeviceText(const VerbsDevice& device) {
  return device.text();
}

}  // namespace farcall
