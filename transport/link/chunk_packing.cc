// SPDX-License-Identifier: Apache-2.0
#include "transport/link/chunk_packing.h"

#include <time.h>

#include <algorithm>
#include <string>

#include "transport/link/zstd.h"

namespace farcall {
namespace {

constexpr int kLevel = 1;
constexpr size_t kSampleBytes = 256u << 10;  // of a chunk, to learn how small it gets
constexpr double kOfNew = 0.1;               // weight of the last measurement of the compressor

// Of a processor, by this thread so far.
PackingPolicy::Ns ThreadTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

void PackingPolicy::Sent(size_t bytes, Ns took, bool was_full) {
  if (!was_full && !is_slow()) return;
  const auto count = static_cast<double>(bytes);
  auto ns = static_cast<double>(took.count());
  if (!was_full) ns = std::min(ns, lane_ns() * count);  // more may be the compressor's time
  const double kept = std::max(0.0, 1 - count / kWindowBytes);
  lane_bytes_ = kept * lane_bytes_ + count;
  lane_took_ns_ = kept * lane_took_ns_ + ns;
}

void PackingPolicy::Tried(size_t bytes, size_t packed_bytes, Ns took) {
  const double ns = static_cast<double>(took.count()) / static_cast<double>(bytes);
  // Beside other threads a try takes longer than it need, never shorter.
  pack_ns_ = !was_tried_ || ns < pack_ns_ ? ns : (1 - kOfNew) * pack_ns_ + kOfNew * ns;
  const double ratio = static_cast<double>(packed_bytes) / static_cast<double>(bytes);
  ratio_ = was_tried_ ? (ratio_ + ratio) / 2 : ratio;
  was_tried_ = true;
  retry_ = ShouldPack() ? kFirstRetry : std::min(2 * retry_, kLastRetry);
  chunks_until_try_ = retry_;
}

bool PackingPolicy::ShouldPack() const {
  return was_tried_ && pack_ns_ * lanes_ < kMaxProcessor * lane_ns() && ratio_ < kMaxRatio;
}

bool PackingPolicy::ShouldTry() {
  if (!is_slow()) return false;
  if (chunks_until_try_ != 0) {
    --chunks_until_try_;
    return false;
  }
  return true;
}

ChunkPacker::~ChunkPacker() {
  if (compressor_ != nullptr) FindZstd()->free_compressor(compressor_);
}

std::span<const std::byte> ChunkPacker::Pack(std::span<const std::byte> bytes) {
  if (!always_ && !policy_.ShouldPack()) {
    if (policy_.ShouldTry()) (void)TryPack(bytes.first(std::min(bytes.size(), kSampleBytes)));
    if (!policy_.ShouldPack()) return {};
  }
  const size_t packed_bytes = TryPack(bytes);
  return packed_bytes < bytes.size() ? std::span(packed_.get(), packed_bytes)
                                     : std::span<const std::byte>();
}

// How many bytes are in packed_; as many as there were where they would not be fewer.
size_t ChunkPacker::TryPack(std::span<const std::byte> bytes) {
  const Zstd* zstd = FindZstd();
  if (zstd == nullptr) return bytes.size();
  const auto pack = [&] {
    return zstd->compress(compressor_, packed_.get(), bytes.size() - 1, bytes.data(), bytes.size(),
                          kLevel);
  };
  if (compressor_ == nullptr) {
    compressor_ = zstd->create_compressor();
    packed_ = std::make_unique_for_overwrite<std::byte[]>(kMaxChunkBytes);
    if (compressor_ == nullptr) return bytes.size();
    (void)pack();  // memory that it touches first would count otherwise
  }
  const PackingPolicy::Ns started = ThreadTime();
  size_t packed_bytes = pack();
  if (zstd->is_error(packed_bytes) != 0)  // it has no room, for one
    packed_bytes = bytes.size();
  policy_.Tried(bytes.size(), packed_bytes, ThreadTime() - started);
  return packed_bytes;
}

ChunkUnpacker::~ChunkUnpacker() {
  if (decompressor_ != nullptr) FindZstd()->free_decompressor(decompressor_);
}

std::span<std::byte> ChunkUnpacker::Room(size_t bytes) {
  if (packed_ == nullptr) packed_ = std::make_unique_for_overwrite<std::byte[]>(kMaxChunkBytes);
  return {packed_.get(), bytes};
}

Status ChunkUnpacker::Unpack(size_t packed_bytes, std::span<std::byte> into) {
  const Zstd* zstd = FindZstd();
  if (zstd != nullptr && decompressor_ == nullptr) decompressor_ = zstd->create_decompressor();
  if (zstd == nullptr || decompressor_ == nullptr)
    return {Code::kUnsupported, "chunk: compressed, and there is no libzstd.so.1 here"};
  const size_t bytes =
      zstd->decompress(decompressor_, into.data(), into.size(), packed_.get(), packed_bytes);
  if (zstd->is_error(bytes) != 0 || bytes != into.size()) {
    return {Code::kMalformed, "chunk: " + std::to_string(packed_bytes) +
                                  " compressed bytes do not give " + std::to_string(into.size())};
  }
  return {};
}

bool CanPackChunks() {
  return FindZstd() != nullptr;
}

}  // namespace farcall
