// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/cluster.h"

namespace farcall::cpu_device {
namespace {

constexpr uint64_t kRankShift = 24;
constexpr uint32_t kMaxRounds = 64;  // of a cluster's blocks in one turn

}  // namespace

uint64_t ClustersOf(const LaunchContext& launch) {
  uint64_t clusters = 1;
  for (int i = 0; i < 3; ++i) clusters *= launch.grid[i] / launch.cluster[i];
  return clusters;
}

bool Cluster::Start(const BlockShape& shape, LaunchContext* launch, uint64_t index, uint32_t smid) {
  const uint32_t* size = launch->cluster;
  uint64_t at[3];  // of the cluster's first block
  for (int i = 0; i < 3; ++i) {
    uint64_t clusters = launch->grid[i] / size[i];
    at[i] = index % clusters * size[i];
    index /= clusters;
  }
  context_ = ClusterContext{};
  context_.count = size[0] * size[1] * size[2];
  context_.live = context_.count * shape.threads;
  done_ = 0;
  while (blocks_.size() < context_.count) blocks_.push_back(std::make_unique<Block>());
  for (uint32_t rank = 0; rank < context_.count; ++rank) {
    const uint32_t inside[3] = {rank % size[0], rank / size[0] % size[1], rank / size[0] / size[1]};
    uint32_t ctaid[3];
    for (int i = 0; i < 3; ++i) ctaid[i] = static_cast<uint32_t>(at[i]) + inside[i];
    if (!blocks_[rank]->Start(shape, launch, ctaid, smid)) return false;
    context_.blocks[rank] = blocks_[rank]->JoinCluster(&context_, rank, inside);
  }
  return true;
}

StepResult Cluster::Step() {
  if (context_.count == 1) {
    const StepResult result = blocks_[0]->Step();
    moved_ = blocks_[0]->moved();
    return result;
  }
  const uint32_t all = (1u << context_.count) - 1;
  moved_ = false;
  bool moved = true;
  for (uint32_t round = 0; moved && round < kMaxRounds; ++round) {
    moved = false;
    for (uint32_t rank = 0; rank < context_.count; ++rank) {
      if (done_ >> rank & 1) continue;
      if (blocks_[rank]->Step() == StepResult::kDone) done_ |= 1u << rank;
      moved |= blocks_[rank]->moved();
    }
    moved_ |= moved;
    if (done_ == all) return StepResult::kDone;
  }
  return StepResult::kStalled;
}

void LeaveCluster(ClusterContext* cluster, const ThreadContext& thread) {
  --cluster->live;
  if (thread.cluster_phase == cluster->phase) --cluster->arrived;
  if (cluster->live && cluster->arrived == cluster->live) {
    cluster->arrived = 0;
    ++cluster->phase;
  }
}

uint8_t* ClusterPointer(BlockContext* block, uint64_t address, uint64_t bytes) {
  const uint64_t rank = address >> kRankShift, offset = address & ((1u << kRankShift) - 1);
  const ClusterContext& cluster = *block->cluster;
  if (rank > cluster.count) return nullptr;
  const BlockContext* owner = rank == 0 ? block : cluster.blocks[rank - 1];
  if (offset > owner->shared_bytes || bytes > owner->shared_bytes - offset) return nullptr;
  return owner->shared + offset;
}

BlockContext* OwnerOfShared(BlockContext* block, uint64_t address, uint64_t bytes) {
  const ClusterContext& cluster = *block->cluster;
  for (uint32_t rank = 0; rank < cluster.count; ++rank) {
    BlockContext* owner = cluster.blocks[rank];
    const uint64_t offset = address - reinterpret_cast<uint64_t>(owner->shared);
    if (offset < owner->shared_bytes && bytes <= owner->shared_bytes - offset) return owner;
  }
  return nullptr;
}

}  // namespace farcall::cpu_device
