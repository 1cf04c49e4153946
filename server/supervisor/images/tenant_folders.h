// SPDX-License-Identifier: Apache-2.0
// A tenant's folders on this machine's disk, opened for its workers: a worker gets descriptors, and
// needs no way to the folders.
//
//   <base>            0700
//     <tenant>        0711  images: the supervisor alone writes them (image_writer.h)
//       of-<variable> 0700  kernels that the device library compiled and writes itself
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace farcall::server {

// Closes the descriptor when it goes.
class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  explicit OwnedDescriptor(int fd) : fd_(fd) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept;
  ~OwnedDescriptor();

  int fd() const { return fd_; }  // -1: none

 private:
  int fd_ = -1;
};

// Opens the tenant's images below `base`; what is missing of it is made. Nobody but this process's
// user may enter `base`. None if that cannot be had.
//   Thread  any
OwnedDescriptor OpenTenantImages(const std::string& base, const std::string& tenant);

// The variable that tells the library of such a device where to keep compiled kernels; null: it
// keeps none.
const char* KernelVariable(const std::string& device_kind);

// Opens the folder of the tenant's compiled kernels, by `variable`: below the operator's choice, if
// it is set, else beside the tenant's images. It is the workers' to write. `for_others`: they have
// users of their own, another each time; all of them may write it, and what one leaves there, but
// none reaches it by its path.
//   Thread  any
OwnedDescriptor OpenTenantKernels(const std::string& base, const std::string& tenant,
                                  const char* variable, bool for_others);

// Makes the folders that hold all tenants' images and compiled kernels, unless they are there.
//   Returns  which they are: device and inode
//   Thread  any
std::vector<std::pair<dev_t, ino_t>> MakeAllCaches(const std::string& base, const char* variable);

// Those of a session, opened before anybody waits for it.
struct SessionFolders {
  OwnedDescriptor images, kernels;
  std::vector<std::pair<dev_t, ino_t>> caches;  // MakeAllCaches
};
SessionFolders OpenSessionFolders(const std::string& base, const std::string& tenant,
                                  const std::string& device_kind, bool for_others);

}  // namespace farcall::server
