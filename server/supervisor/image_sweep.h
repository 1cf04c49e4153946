// SPDX-License-Identifier: Apache-2.0
// The images of all owners together on this machine's disk: what was used longest ago goes, whoever
// sent it. A worker bounds what its own owner keeps (server/session/image_store.h) and sees no
// other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace farcall::server {

// Removes files below `base`, the least recently used first, until they take no more than
// `most_bytes`; what is left. Follows no link: workers write there. A session is not affected: it
// has what it uses in memory, and sends again what it finds missing.
uint64_t SweepImages(const std::string& base, uint64_t most_bytes);

// Does so at once and every few seconds, on a thread of its own.
class ImageSweep final {
 public:
  ImageSweep(std::string base, uint64_t most_bytes);  // "" or 0: never
  ~ImageSweep();
  ImageSweep(const ImageSweep&) = delete;
  ImageSweep& operator=(const ImageSweep&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace farcall::server
