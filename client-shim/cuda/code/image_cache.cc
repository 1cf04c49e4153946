// SPDX-License-Identifier: Apache-2.0
// What is known of an image's kernels, kept on disk: a file of records per (image, device, driver,
// options).
#include <atomic>
#include <cerrno>
#include <cstring>

#include "client-shim/core/connection/server_scope.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/report/record_file.h"
#include "client-shim/core/session/config.h"
#include "client-shim/cuda/objects/image.h"
#include "client-shim/cuda/state/module.h"
#include "proto/codec.h"
#include "proto/hex.h"

namespace farcall::client {

namespace {

constexpr uint8_t kLoads = 1, kKernel = 2;

// A container may be read-only: then nothing is kept, and each run asks anew.
void TellOnce(const std::string& folder, int error) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  Log(LogLevel::kWarn,
      "the cache of kernels cannot be written: %s: %s; name a folder that can in "
      "FARCALL_CACHE_DIR",
      folder.c_str(), std::strerror(error));
}

}  // namespace

void Image::OpenCache(const std::string& key) {
  const std::string& folder = GetConfig().cache_dir;
  if (folder.empty()) return;
  std::string text = "farcall-kernels-2|" + SessionScope() + "|" + HexOf(hash_) + "|" + key;
  std::string name = HexOf(Sha256(std::as_bytes(std::span(text))));
  std::lock_guard lock(mutex_);
  cache_path_ = folder + "/client/" + name;
  ReadCache();
}

void Image::ReadCache() {
  ReadRecords(cache_path_, [this](uint8_t kind, std::span<const std::byte> body) {
    if (kind == kLoads) known_to_load_ = true;
    if (kind != kKernel) return;
    Reader in(body);
    auto* info = new KernelInfo;
    info->name = in.GetString();
    info->attributes.resize(in.GetCount(4));
    for (int32_t& attribute : info->attributes) attribute = in.Get<int32_t>();
    info->parameters.resize(in.GetCount(8));
    for (Parameter& parameter : info->parameters) {
      parameter.offset = in.Get<uint32_t>();
      parameter.bytes = in.Get<uint32_t>();
    }
    info->Measure();
    if (in.Done() && info->parameter_bytes <= kMaxInlineBytes)
      kernels_[info->name] = info;
    else
      delete info;
  });
}

void Image::AppendCache(uint8_t kind, std::span<const std::byte> body) {
  if (cache_path_.empty() || AppendRecord(cache_path_, kind, body)) return;
  TellOnce(GetConfig().cache_dir, errno);
  cache_path_.clear();
}

void Image::RememberLoad() {
  std::lock_guard lock(mutex_);
  if (known_to_load_) return;
  known_to_load_ = true;
  AppendCache(kLoads, {});
}

const KernelInfo* Image::Find(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : found->second;
}

const KernelInfo* Image::Remember(KernelInfo info) {
  auto* kept = new KernelInfo(std::move(info));
  Log(LogLevel::kDebug, "kernel %s: %zu parameters, %u bytes", kept->name.c_str(),
      kept->parameters.size(), kept->parameter_bytes);
  Builder body;
  body.PutString(kept->name);
  body.Put<uint64_t>(kept->attributes.size());
  for (int32_t attribute : kept->attributes) body.Put<int32_t>(attribute);
  body.Put<uint64_t>(kept->parameters.size());
  for (const Parameter& parameter : kept->parameters) {
    body.Put<uint32_t>(parameter.offset);
    body.Put<uint32_t>(parameter.bytes);
  }
  std::lock_guard lock(mutex_);
  kernels_[kept->name] = kept;
  AppendCache(kKernel, body.bytes());
  return kept;
}

}  // namespace farcall::client
