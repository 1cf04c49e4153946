// SPDX-License-Identifier: Apache-2.0
#include "listener/tls/tls_files_watch.h"

namespace farcall {

namespace {

constexpr std::chrono::seconds kLookAgain(1);

}  // namespace

bool TlsFilesWatch::HaveChanged() {
  if (Clock::now() < looked_at_ + kLookAgain) return false;
  looked_at_ = Clock::now();
  const std::array<Stamp, 4> stamps = Stamps();
  const bool changed = stamps != stamps_;
  stamps_ = stamps;
  return changed;
}

std::array<TlsFilesWatch::Stamp, 4> TlsFilesWatch::Stamps() const {
  std::array<Stamp, 4> stamps;
  const std::string* names[] = {&files_.certificate, &files_.key, &files_.authorities,
                                &files_.revoked};
  for (size_t i = 0; i < stamps.size(); ++i) {
    struct stat status {};
    if (stat(names[i]->c_str(), &status) == 0) stamps[i] = {status.st_mtim, status.st_ino};
  }
  return stamps;
}

}  // namespace farcall
