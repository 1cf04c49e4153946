// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/share_descriptor.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::client {

namespace {
constexpr uint64_t kMagic = 0x31455241'48534346;  // "FCSHARE1"
struct Content {
  uint64_t magic = kMagic;
  ShareToken token;
};
static_assert(sizeof(Content) == 24);
constexpr unsigned kCloseOnExec = 1, kAllowSealing = 2;  // memfd_create's
constexpr int kAddSeals = 1033, kAllSeals = 0x0F;        // fcntl's: seal, shrink, grow, write
}  // namespace

int NewShareDescriptor(const ShareToken& token) {
  // By number: the C library of older images has no such function.
  long made = syscall(SYS_memfd_create, "farcall-memory", kCloseOnExec | kAllowSealing);
  if (made < 0) return -1;
  int descriptor = static_cast<int>(made);
  Content content;
  content.token = token;
  if (pwrite(descriptor, &content, sizeof(content), 0) != sizeof(content)) {
    close(descriptor);
    return -1;
  }
  fcntl(descriptor, kAddSeals, kAllSeals);
  return descriptor;
}

bool ReadShareDescriptor(int descriptor, ShareToken* token) {
  Content content;
  content.magic = 0;
  if (pread(descriptor, &content, sizeof(content), 0) != sizeof(content) ||
      content.magic != kMagic) {
    return false;
  }
  *token = content.token;
  return true;
}

}  // namespace farcall::client
