// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/communicator.h"

#include <unistd.h>

#include <cstring>

#include "client-shim/nccl/base/driver.h"
#include "client-shim/nccl/base/error.h"

namespace farcall::nccl {

namespace {

// What a rank tells the others of itself. In one process an address is as good for all, of another
// device once its context may be accessed; else the memory is opened by its handle.
struct Description {
  char host[64];
  uint64_t process;
  uint64_t started;  // two processes of one number differ in it
  CUdeviceptr region;
  CUcontext context;
  CUipcMemHandle handle;
};

// Whether memory of a context of this process can be used in the current one.
bool CanAccess(CUcontext own, CUcontext peer) {
  if (peer == own) return true;
  const CUresult enabled = FindDriver()->cuCtxEnablePeerAccess(peer, 0);
  return enabled == CUDA_SUCCESS || enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

// Tells this process from others, also in another PID namespace.
uint64_t ProcessMark() {
  static const uint64_t mark = [] {
    uint64_t value = 0;
    timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    value = static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
    return value ^ reinterpret_cast<uint64_t>(&value);
  }();
  return mark;
}

size_t RoundUp(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

// Four arrays of a u32 for each rank.
size_t Communicator::FlagBytes() const {
  return RoundUp(4 * sizeof(uint32_t) * static_cast<size_t>(ranks_), 4096);
}

size_t Communicator::RegionBytes() const {
  return FlagBytes() + kSlots * (kChunkBytes + static_cast<size_t>(ranks_) * kPeerChunkBytes);
}

CUdeviceptr Communicator::FlagAddress(int region, Flag flag, int of) const {
  return peers_[region].region + sizeof(uint32_t) * (static_cast<size_t>(flag) * ranks_ + of);
}

CUdeviceptr Communicator::Slot(int of, uint32_t chunk) const {
  if (Relayed(of)) return relay_->Slots(of) + (chunk % kSlots) * kChunkBytes;
  return peers_[of].region + FlagBytes() + (chunk % kSlots) * kChunkBytes;
}

CUdeviceptr Communicator::PeerSlot(int from, int to, uint32_t chunk) const {
  if (Relayed(from)) return relay_->PeerSlots(from) + (chunk % kSlots) * kPeerChunkBytes;
  return peers_[from].region + FlagBytes() + kSlots * kChunkBytes +
         (static_cast<size_t>(to) * kSlots + chunk % kSlots) * kPeerChunkBytes;
}

ncclResult_t Communicator::Create(const ncclUniqueId& id, int rank, int ranks,
                                  std::unique_ptr<Communicator>* created) {
  if (FindDriver() == nullptr) return ncclSystemError;
  std::unique_ptr<Communicator> made(new Communicator(rank, ranks));
  FARCALL_NCCL_TRY(Bootstrap::Join(id, rank, ranks, &made->bootstrap_));
  // A rank that fails here leaves, and so the others learn of it.
  FARCALL_NCCL_TRY(made->OpenRegion());
  std::vector<std::string> described;
  FARCALL_NCCL_TRY(made->bootstrap_->AllGather(made->Describe(), &described));
  FARCALL_NCCL_TRY(made->OpenPeers(described));
  *created = std::move(made);
  return ncclSuccess;
}

ncclResult_t Communicator::OpenRegion() {
  const Driver& driver = *FindDriver();
  FARCALL_NCCL_CUDA(cuCtxGetCurrent, &context_);
  if (context_ == nullptr)
    return Fail(ncclInvalidUsage, "no CUDA context is current: call cudaSetDevice first");
  CUdevice device = 0;
  FARCALL_NCCL_CUDA(cuCtxGetDevice, &device);
  device_ = device;
  if (CUresult result = driver.cuMemAlloc_v2(&region_, RegionBytes()); result != CUDA_SUCCESS) {
    CudaFailure("cuMemAlloc", result);
    return Fail(ncclUnhandledCudaError,
                "no %zu bytes of device memory for a communicator of %d ranks", RegionBytes(),
                ranks_);
  }
  FARCALL_NCCL_CUDA(cuMemsetD8_v2, region_, 0, FlagBytes());
  FARCALL_NCCL_CUDA(cuEventCreate, &last_, CU_EVENT_DISABLE_TIMING);
  // The zeros are there before any rank hears of them.
  FARCALL_NCCL_CUDA(cuStreamSynchronize, CU_STREAM_LEGACY);
  sent_.assign(ranks_, 1);
  received_.assign(ranks_, 1);
  return ncclSuccess;
}

std::string Communicator::Describe() {
  Description own = {};
  gethostname(own.host, sizeof(own.host) - 1);
  own.process = static_cast<uint64_t>(getpid());
  own.started = ProcessMark();
  own.region = region_;
  own.context = context_;
  // Needed by ranks of other processes only, which say so if it is not there.
  FindDriver()->cuIpcGetMemHandle(&own.handle, region_);
  return std::string(reinterpret_cast<const char*>(&own), sizeof(own));
}

ncclResult_t Communicator::OpenPeers(const std::vector<std::string>& described) {
  Description own;
  std::memcpy(&own, described[rank_].data(), sizeof(own));
  peers_.resize(ranks_);
  std::vector<bool> unreached(ranks_);
  for (int i = 0; i < ranks_; ++i) {
    Description peer;
    if (described[i].size() != sizeof(peer))
      return Fail(ncclRemoteError, "rank %d speaks another version", i);
    std::memcpy(&peer, described[i].data(), sizeof(peer));
    bool same = std::memcmp(peer.host, own.host, sizeof(own.host)) == 0 &&
                peer.process == own.process && peer.started == own.started;
    if (same) {
      peers_[i].region = peer.region;
      unreached[i] = !CanAccess(context_, peer.context);
      continue;
    }
    peers_[i].opened =
        FindDriver()->cuIpcOpenMemHandle_v2(&peers_[i].region, peer.handle,
                                            CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS;
    unreached[i] = !peers_[i].opened;
  }
  // Also the meeting after which every region has been opened by all who raise flags in it.
  std::vector<FlagAddresses> own_flags(ranks_);
  for (int i = 0; i < ranks_; ++i)
    for (size_t flag = 0; flag < kFlags; ++flag)
      own_flags[i][flag] = FlagAddress(rank_, static_cast<Flag>(flag), i);
  return Relay::Open(*bootstrap_, rank_, unreached, own_flags, &relay_);
}

Communicator::~Communicator() {
  const Driver& driver = *FindDriver();
  if (context_ == nullptr) return;
  InContext in(context_);
  relay_.reset();
  for (const Peer& peer : peers_)
    if (peer.opened) driver.cuIpcCloseMemHandle(peer.region);
  for (CUdeviceptr scalar : scalars_) driver.cuMemFree_v2(scalar);
  if (last_ != nullptr) driver.cuEventDestroy_v2(last_);
  if (region_ != 0) driver.cuMemFree_v2(region_);
}

ncclResult_t Communicator::CheckUsable(CUstream stream) const {
  if (aborted_) return Fail(ncclInvalidUsage, "the communicator was aborted");
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  FARCALL_NCCL_CUDA(cuStreamIsCapturing, stream, &capture);
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return Fail(ncclInvalidUsage, "collectives in a stream capture are not supported");
  return ncclSuccess;
}

ncclResult_t Communicator::Begin(CUstream stream) {
  FARCALL_NCCL_TRY(CheckUsable(stream));
  if (has_last_ && stream != last_stream_) FARCALL_NCCL_CUDA(cuStreamWaitEvent, stream, last_, 0);
  return ncclSuccess;
}

ncclResult_t Communicator::End(CUstream stream) {
  FARCALL_NCCL_CUDA(cuEventRecord, last_, stream);
  has_last_ = true;
  last_stream_ = stream;
  return ncclSuccess;
}

ncclResult_t Communicator::Raise(CUstream stream, Flag flag, int at, uint32_t value,
                                 uint64_t bytes) {
  if (Relayed(at)) {
    const CUdeviceptr slot = flag == Flag::kReady ? Slot(rank_, value) : PeerSlot(rank_, at, value);
    return relay_->Raise(stream, at, flag, value, slot, bytes);
  }
  FARCALL_NCCL_CUDA(cuStreamWriteValue32_v2, stream, FlagAddress(at, flag, rank_), value,
                    CU_STREAM_WRITE_VALUE_DEFAULT);
  return ncclSuccess;
}

ncclResult_t Communicator::Await(CUstream stream, Flag flag, int from, uint32_t value) {
  FARCALL_NCCL_CUDA(cuStreamWaitValue32_v2, stream, FlagAddress(rank_, flag, from), value,
                    CU_STREAM_WAIT_VALUE_GEQ);
  return ncclSuccess;
}

ncclResult_t Communicator::KeepScalar(const void* value, size_t bytes, CUdeviceptr* address) {
  CUdeviceptr made = 0;
  FARCALL_NCCL_CUDA(cuMemAlloc_v2, &made, 8);
  scalars_.push_back(made);
  FARCALL_NCCL_CUDA(cuMemcpyHtoD_v2, made, value, bytes);
  *address = made;
  return ncclSuccess;
}

ncclResult_t Communicator::Quiesce(bool together) {
  ncclResult_t result = ncclSuccess;
  if (has_last_ && !aborted_) {
    CUresult waited = FindDriver()->cuEventSynchronize(last_);
    if (waited != CUDA_SUCCESS) result = CudaFailure("cuEventSynchronize", waited);
  }
  if (!together || aborted_ || left_) return result;
  left_ = true;
  std::vector<std::string> ignored;
  ncclResult_t met = bootstrap_->AllGather("", &ignored);
  return result != ncclSuccess ? result : met;
}

void Communicator::Abort() {
  if (aborted_) return;
  aborted_ = true;
  if (relay_ != nullptr) relay_->Shutdown();
  const Driver& driver = *FindDriver();
  CUstream stream = nullptr;
  // Not behind what waits. A value half the range ahead of every chunk is at or past all of them.
  if (driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return;
  driver.cuMemsetD32Async(region_, chunk_ + 0x3fffffffu, FlagBytes() / sizeof(uint32_t), stream);
  driver.cuStreamSynchronize(stream);
  driver.cuStreamDestroy_v2(stream);
  if (has_last_) driver.cuEventSynchronize(last_);
}

ncclResult_t Communicator::AsyncError() {
  if (aborted_ || left_) return ncclSuccess;
  const bool relayed = relay_ == nullptr || relay_->AllPresent();
  return bootstrap_->AllPresent() && relayed ? ncclSuccess : ncclRemoteError;
}

}  // namespace farcall::nccl
