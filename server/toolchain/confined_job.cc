// SPDX-License-Identifier: Apache-2.0
#include "server/toolchain/confined_job.h"

#include <sys/utsname.h>

#include <system_error>
#include <thread>

#include "server/toolchain/read_confine.h"

namespace farcall::server {

namespace {

Status WithoutLandlock(const Status& why) {
  utsname kernel{};
  uname(&kernel);
  return {Code::kUnavailable,
          std::string("kernel ") + kernel.release +
              " cannot confine a compiler to its own files (" + why.message() +
              "), so nothing is compiled here for tenants. Use a kernel with Landlock (5.13 or "
              "newer), or serve with --trust-tenants."};
}

}  // namespace

Status RunConfined(const std::vector<std::string>& folders, bool trust_tenants,
                   const std::function<void()>& job) {
  Status status;
  try {
    std::thread([&] {
      Status confined = ConfineReads(folders);
      if (!confined.ok() && !trust_tenants) {
        status = WithoutLandlock(confined);
        return;
      }
      job();
    }).join();
  } catch (const std::system_error& error) {
    return {Code::kUnavailable, std::string("no thread for a compiler: ") + error.what()};
  }
  return status;
}

}  // namespace farcall::server
