// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/images/tenant_folders.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <utility>

#include "proto/handshake/crypto.h"
#include "proto/hex.h"

namespace farcall::server {

namespace fs = std::filesystem;

namespace {

constexpr char kTenants[] = "tenants";  // worker_files.cc opens it too
constexpr mode_t kOwnersOnly = 0700;
constexpr mode_t kReached = 0711;  // files of it may be opened, by those who hold its descriptor
constexpr mode_t kWrittenByAll = 0777;

std::string NameOf(const std::string& tenant) {
  const Hash256 hash = Sha256(BytesOf(tenant));
  return HexOf(std::span(hash).first(16));
}

// <linux/posix_acl_xattr.h> is not on every build host.
constexpr uint32_t kAclVersion = 2, kAclNoId = ~uint32_t{0};
constexpr uint16_t kAclUser = 1, kAclGroup = 4, kAclOthers = 32, kAclAll = 7;
struct AclEntry {
  uint16_t tag, rights;
  uint32_t id;
};
struct Acl {
  uint32_t version;
  AclEntry entries[3];
};
static_assert(sizeof(Acl) == 28);

// Files made below get the modes that their maker asks for: its umask, under which it makes files
// elsewhere too, does not count. A file system without ACLs leaves them to be replaced, not to be
// written.
void IgnoreUmaskBelow(int folder) {
  Acl acl{htole32(kAclVersion), {}};
  for (int i = 0; const uint16_t tag : {kAclUser, kAclGroup, kAclOthers})
    acl.entries[i++] = {htole16(tag), htole16(kAclAll), kAclNoId};
  (void)fsetxattr(folder, "system.posix_acl_default", &acl, sizeof(acl), 0);
}

int OpenFolderAt(int parent, const char* name) {
  return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Made, if it is missing; with that mode. None of another owner is taken: he could change it.
OwnedDescriptor MakeFolder(int parent, const std::string& name, mode_t mode) {
  int fd = OpenFolderAt(parent, name.c_str());
  if (fd < 0 && errno == ENOENT) {
    mkdirat(parent, name.c_str(), kOwnersOnly);  // another session may be faster
    fd = OpenFolderAt(parent, name.c_str());
  }
  OwnedDescriptor folder(fd);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0 || status.st_uid != geteuid()) return {};
  if ((status.st_mode & ALLPERMS) != mode) {
    if (fchmod(fd, mode) != 0) return {};
    if (mode == kWrittenByAll) IgnoreUmaskBelow(fd);
  }
  return folder;
}

// A folder that only this process's user enters. Its parents are made as usual.
OwnedDescriptor MakeClosedFolder(const fs::path& path) {
  OwnedDescriptor parent(open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (parent.fd() < 0) {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    parent = OwnedDescriptor(open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  return parent.fd() < 0 ? OwnedDescriptor()
                         : MakeFolder(parent.fd(), path.filename().string(), kOwnersOnly);
}

}  // namespace

OwnedDescriptor& OwnedDescriptor::operator=(OwnedDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedDescriptor::~OwnedDescriptor() {
  if (fd_ >= 0) close(fd_);
}

OwnedDescriptor OpenTenantImages(const std::string& base, const std::string& tenant) {
  if (base.empty()) return {};
  OwnedDescriptor all = MakeClosedFolder(base);
  return all.fd() < 0 ? OwnedDescriptor() : MakeFolder(all.fd(), NameOf(tenant), kReached);
}

const char* KernelVariable(const std::string& device_kind) {
  if (device_kind == "dry") return nullptr;
  return device_kind.rfind("cpu", 0) == 0 ? "FARCALL_CPU_CACHE" : "CUDA_CACHE_PATH";
}

std::vector<std::pair<dev_t, ino_t>> MakeAllCaches(const std::string& base, const char* variable) {
  std::vector<fs::path> folders;
  if (!base.empty()) folders.emplace_back(base);
  const char* chosen = variable == nullptr ? nullptr : std::getenv(variable);
  if (chosen != nullptr && *chosen != 0) folders.push_back(fs::path(chosen) / kTenants);
  std::vector<std::pair<dev_t, ino_t>> made;
  for (const fs::path& folder : folders) {
    const OwnedDescriptor opened = MakeClosedFolder(folder);
    struct stat status {};
    if (opened.fd() >= 0 && fstat(opened.fd(), &status) == 0)
      made.emplace_back(status.st_dev, status.st_ino);
  }
  return made;
}

OwnedDescriptor OpenTenantKernels(const std::string& base, const std::string& tenant,
                                  const char* variable, bool for_others) {
  const char* chosen = variable == nullptr ? "" : std::getenv(variable);
  if (chosen != nullptr && *chosen == 0) return {};  // none is wanted
  const mode_t mode = for_others ? kWrittenByAll : kOwnersOnly;
  if (chosen == nullptr) {
    OwnedDescriptor images = OpenTenantImages(base, tenant);
    return images.fd() < 0 ? OwnedDescriptor()
                           : MakeFolder(images.fd(), std::string("of-") + variable, mode);
  }
  // The operator's folder may be open to others: one that is not lies between.
  OwnedDescriptor all = MakeClosedFolder(fs::path(chosen) / kTenants);
  return all.fd() < 0 ? OwnedDescriptor() : MakeFolder(all.fd(), NameOf(tenant), mode);
}

SessionFolders OpenSessionFolders(const std::string& base, const std::string& tenant,
                                  const std::string& device_kind, bool for_others) {
  const char* variable = KernelVariable(device_kind);
  return {OpenTenantImages(base, tenant), OpenTenantKernels(base, tenant, variable, for_others),
          MakeAllCaches(base, variable)};
}

}  // namespace farcall::server
