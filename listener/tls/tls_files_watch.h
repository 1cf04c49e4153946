// SPDX-License-Identifier: Apache-2.0
// Whether files of TLS are others than those that were read.
#pragma once

#include <sys/stat.h>

#include <array>

#include "transport/channel.h"
#include "transport/tls/tls_session.h"

namespace farcall {

//   Thread  one at a time
class TlsFilesWatch {
 public:
  explicit TlsFilesWatch(TlsFiles files) : files_(std::move(files)), stamps_(Stamps()) {}
  // Looks once a second at most; what is there now counts as read, whatever it is.
  bool HaveChanged();
  const TlsFiles& files() const { return files_; }

 private:
  struct Stamp {
    timespec changed{};
    ino_t inode = 0;
    bool operator==(const Stamp& other) const {
      return inode == other.inode && changed.tv_sec == other.changed.tv_sec &&
             changed.tv_nsec == other.changed.tv_nsec;
    }
  };
  std::array<Stamp, 4> Stamps() const;

  const TlsFiles files_;
  std::array<Stamp, 4> stamps_;
  Clock::time_point looked_at_ = Clock::now();
};

}  // namespace farcall
