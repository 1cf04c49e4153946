// SPDX-License-Identifier: Apache-2.0
// The images and compiled kernels of all owners together on this machine's disk: what was used
// longest ago goes, whoever sent it. What one owner keeps of images is bounded before
// (image_writer.h).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "sync/cond_var.h"

namespace farcall::server {

// Removes files below `base`, the least recently used first, until they take no more than
// `most_bytes`; what is left. Follows no link: workers write there. A session is not affected: it
// has what it uses in memory, and sends again what it finds missing.
//   `for_others`  workers have users of their own, another each time: what a device library has
//                 left in its folder for its own user alone becomes all of theirs
uint64_t SweepImages(const std::string& base, uint64_t most_bytes, bool for_others = false);

// Does so at once and every few seconds, on a thread of its own.
class ImageSweep final {
 public:
  ImageSweep(std::string base, uint64_t most_bytes, bool for_others);  // "" or 0: never
  ~ImageSweep();
  ImageSweep(const ImageSweep&) = delete;
  ImageSweep& operator=(const ImageSweep&) = delete;

 private:
  std::mutex mutex_;
  CondVar wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace farcall::server
