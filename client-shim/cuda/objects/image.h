// SPDX-License-Identifier: Apache-2.0
// One kernel image as it crosses the wire: the entry the driver would choose, its hash, and what is
// known of its kernels.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client-shim/core/session/session_face.h"
#include "cuda-abi/image.h"
#include "proto/handshake/handshake.h"

namespace farcall::client {

struct KernelInfo;

// What an image is chosen for.
struct ImageTarget {
  uint32_t cc = 0;  // 130 = 13.0
  cuda_abi::CodeTaste taste = cuda_abi::CodeTaste::kMachineCodeFirst;
  bool links_units = false;  // the server hands the driver all units of relocatable code
};

class Image {
 public:
  // Chooses for `target`; `error` is one line if there is nothing for it. Of a program of several
  // units that were not linked to code for it, all units' PTX.
  static std::shared_ptr<Image> FromPointer(const void* image, const ImageTarget& target,
                                            CUresult* status, std::string* error);
  static std::shared_ptr<Image> FromBytes(std::vector<std::byte> bytes, const ImageTarget& target,
                                          CUresult* status, std::string* error);

  // As it is, whatever it is: an input of the linker.
  static std::shared_ptr<Image> Whole(std::vector<std::byte> bytes);

  const Hash256& hash() const { return hash_; }
  uint64_t bytes() const { return size_; }
  // Sends the bytes if this server's store lacks them.
  CUresult Offer();
  // Whether this server has been sent them, or had them.
  bool IsHere() const;
  // The server forgot it: the next Offer sends.
  void Unsend();

  // Knowledge from earlier runs: filed by server, image, device, driver and options.
  void OpenCache(const std::string& key);
  bool known_to_load() const { return known_to_load_; }
  void RememberLoad();
  const KernelInfo* Find(const std::string& name);
  const KernelInfo* Remember(KernelInfo info);

 private:
  explicit Image(std::vector<std::byte> bytes);
  void AppendCache(uint8_t kind, std::span<const std::byte> body);
  void ReadCache();

  Hash256 hash_{};
  uint64_t size_ = 0;
  std::vector<std::byte> data_;
  std::string cache_path_;
  bool known_to_load_ = false;
  std::mutex mutex_;
  std::map<std::string, const KernelInfo*> kernels_;
};

}  // namespace farcall::client
