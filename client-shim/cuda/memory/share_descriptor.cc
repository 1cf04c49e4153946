// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/memory/share_descriptor.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client-shim/cuda/state/settled.h"

namespace farcall::client {

namespace {
constexpr uint64_t kMagic = 0x32455241'48534346;  // "FCSHARE2"
struct Content {
  uint64_t magic = kMagic;
  ShareToken token;
  ShareKind kind;
  int32_t server_device = 0;
};
static_assert(sizeof(Content) == 32);
constexpr unsigned kCloseOnExec = 1, kAllowSealing = 2;  // memfd_create's
constexpr int kAddSeals = 1033, kAllSeals = 0x0F;        // fcntl's: seal, shrink, grow, write
}  // namespace

int NewShareDescriptor(ShareKind kind, const Share& share) {
  NoteShared();
  // By number: the C library of older images has no such function.
  long made = syscall(SYS_memfd_create, "farcall-memory", kCloseOnExec | kAllowSealing);
  if (made < 0) return -1;
  int descriptor = static_cast<int>(made);
  Content content;
  content.token = share.token;
  content.kind = kind;
  content.server_device = share.server_device;
  if (pwrite(descriptor, &content, sizeof(content), 0) != sizeof(content)) {
    close(descriptor);
    return -1;
  }
  fcntl(descriptor, kAddSeals, kAllSeals);
  return descriptor;
}

bool ReadShareDescriptor(int descriptor, ShareKind kind, Share* share) {
  NoteShared();
  Content content;
  content.magic = 0;
  if (pread(descriptor, &content, sizeof(content), 0) != sizeof(content) ||
      content.magic != kMagic || content.kind != kind)
    return false;
  *share = {content.token, content.server_device};
  return true;
}

}  // namespace farcall::client
