// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/net/relay.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <mutex>
#include <thread>

#include "client-shim/core/report/log.h"
#include "client-shim/nccl/base/driver.h"
#include "client-shim/nccl/base/error.h"
#include "client-shim/nccl/net/sockets.h"

namespace farcall::nccl {

namespace {

constexpr int kMeetMs = 30000;

struct Head {
  uint32_t flag, value, bytes;
};

// Said first on a connection.
struct Greeting {
  uint8_t secret[kSecretBytes];
  uint32_t rank;
};

bool CarriesBytes(uint32_t flag) {
  return flag == static_cast<uint32_t>(Flag::kReady) ||
         flag == static_cast<uint32_t>(Flag::kPeerReady);
}

size_t SlotBytes(uint32_t flag) {
  return flag == static_cast<uint32_t>(Flag::kReady) ? kChunkBytes : kPeerChunkBytes;
}

// The sending side outlives the communicator where a host function still has to run.
struct Wire {
  explicit Wire(int connected) : socket(connected) {}
  ~Wire() { close(socket); }

  void Send(const Head& head, const std::byte* data) {
    std::lock_guard lock(mutex);
    if (lost) return;
    if (!SendAll(socket, &head, sizeof(head)) || !SendAll(socket, data, head.bytes)) lost = true;
  }

  const int socket;
  std::mutex mutex;
  std::atomic<bool> lost = false;
};

struct Parcel {
  std::shared_ptr<Wire> wire;
  Head head;
  const std::byte* data;
};

void SendParcel(void* given) {
  std::unique_ptr<Parcel> parcel(static_cast<Parcel*>(given));
  parcel->wire->Send(parcel->head, parcel->data);
}

// Accepts until each of `expected` ranks below this one has come and proved that it was invited.
ncclResult_t AcceptLower(int listener, const uint8_t* secret, std::vector<bool> expected,
                         std::vector<int>* sockets) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kMeetMs);
  for (;;) {
    const auto missing = std::find(expected.begin(), expected.end(), true);
    if (missing == expected.end()) return ncclSuccess;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd waiting = {listener, POLLIN, 0};
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) == 0)
      return Fail(ncclRemoteError, "rank %ld does not connect within %d s",
                  static_cast<long>(missing - expected.begin()), kMeetMs / 1000);
    int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    PrepareSocket(socket);
    // A stranger that says nothing is not waited for.
    timeval patience = {3, 0}, none = {0, 0};
    Greeting greeting;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (!ReceiveAll(socket, &greeting, sizeof(greeting)) || !SameSecret(greeting.secret, secret) ||
        greeting.rank >= expected.size() || !expected[greeting.rank]) {
      close(socket);
      continue;
    }
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
    expected[greeting.rank] = false;
    (*sockets)[greeting.rank] = socket;
  }
}

// What a rank says before any connection: which ranks it cannot reach, and where it is reached.
struct Card {
  MeetingId id;
  uint8_t unreached[kMaxRanks / 8];
};
static_assert(sizeof(Card) <= kMaxBlobBytes);

bool Marks(const Card& card, size_t rank) {
  return card.unreached[rank / 8] >> (rank % 8) & 1;
}

}  // namespace

// One connection: the device memory where what comes lands, and the thread that puts it there.
class Relay::Peer {
 public:
  Peer(int socket, const FlagAddresses& flags)
      : wire(std::make_shared<Wire>(socket)), flags_(flags) {}

  ncclResult_t Start() {
    FARCALL_NCCL_CUDA(cuCtxGetCurrent, &context_);
    FARCALL_NCCL_CUDA(cuMemAlloc_v2, &slots, kSlots * (kChunkBytes + kPeerChunkBytes));
    void* pinned = nullptr;
    FARCALL_NCCL_CUDA(cuMemHostAlloc, &pinned, kSlots * kPeerChunkBytes, 0);
    staged = static_cast<std::byte*>(pinned);
    FARCALL_NCCL_CUDA(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
    // Signals belong to the application's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    reader_ = std::thread([this] { Read(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return ncclSuccess;
  }

  ~Peer() {
    Shutdown();
    if (reader_.joinable()) reader_.join();
    const Driver& driver = *FindDriver();
    if (stream_ != nullptr) {
      driver.cuStreamSynchronize(stream_);
      driver.cuStreamDestroy_v2(stream_);
    }
    if (staged != nullptr) driver.cuMemFreeHost(staged);
    if (slots != 0) driver.cuMemFree_v2(slots);
  }

  void Shutdown() {
    wire->lost = true;
    shutdown(wire->socket, SHUT_RDWR);
  }

  CUdeviceptr peer_slots() const { return slots + kSlots * kChunkBytes; }

  const std::shared_ptr<Wire> wire;
  CUdeviceptr slots = 0;
  std::byte* staged = nullptr;  // kSlots of a send to this rank, page-locked

 private:
  // Thread body, until the connection ends or says something that is none of ours.
  void Read() {
    FindDriver()->cuCtxSetCurrent(context_);
    std::vector<std::byte> bytes(kChunkBytes);
    Head head;
    while (ReceiveAll(wire->socket, &head, sizeof(head)) && head.flag < kFlags &&
           head.bytes <= (CarriesBytes(head.flag) ? SlotBytes(head.flag) : 0) &&
           ReceiveAll(wire->socket, bytes.data(), head.bytes) && Land(head, bytes.data())) {
    }
    wire->lost = true;
  }

  bool Land(const Head& head, const std::byte* bytes) {
    const Driver& driver = *FindDriver();
    const CUdeviceptr base =
        head.flag == static_cast<uint32_t>(Flag::kReady) ? slots : peer_slots();
    const CUdeviceptr slot = base + (head.value % kSlots) * SlotBytes(head.flag);
    return (head.bytes == 0 ||
            driver.cuMemcpyHtoDAsync_v2(slot, bytes, head.bytes, stream_) == CUDA_SUCCESS) &&
           driver.cuStreamWriteValue32_v2(stream_, flags_[head.flag], head.value,
                                          CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS;
  }

  const FlagAddresses flags_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::thread reader_;
};

Relay::Relay(size_t ranks) : peers_(ranks) {}

Relay::~Relay() {
  peers_.clear();
  if (staged_ != nullptr) FindDriver()->cuMemFreeHost(staged_);
}

CUdeviceptr Relay::Slots(int of) const {
  return peers_[static_cast<size_t>(of)]->slots;
}

CUdeviceptr Relay::PeerSlots(int of) const {
  return peers_[static_cast<size_t>(of)]->peer_slots();
}

// Ranks above this one are called, ranks below it call.
ncclResult_t Relay::Connect(int rank, const std::vector<std::string>& blobs,
                            const std::vector<bool>& linked, int listener, const uint8_t* secret,
                            std::vector<int>* sockets) {
  for (size_t i = static_cast<size_t>(rank) + 1; i < linked.size(); ++i) {
    if (!linked[i]) continue;
    Card card;
    std::memcpy(&card, blobs[i].data(), sizeof(card));
    Greeting greeting = {{}, static_cast<uint32_t>(rank)};
    std::memcpy(greeting.secret, card.id.secret, kSecretBytes);
    (*sockets)[i] = ConnectAndSend(
        card.id, std::string(reinterpret_cast<const char*>(&greeting), sizeof(greeting)));
    if ((*sockets)[i] < 0)
      return Fail(ncclSystemError,
                  "rank %d has no server in common with rank %zu and cannot connect to it, port %u",
                  rank, i, card.id.port);
  }
  std::vector<bool> lower(linked);
  for (size_t i = static_cast<size_t>(rank); i < lower.size(); ++i) lower[i] = false;
  return AcceptLower(listener, secret, std::move(lower), sockets);
}

ncclResult_t Relay::Open(Bootstrap& bootstrap, int rank, const std::vector<bool>& unreached,
                         const std::vector<FlagAddresses>& own_flags,
                         std::unique_ptr<Relay>* opened) {
  const size_t ranks = unreached.size();
  Card card = {};
  for (size_t i = 0; i < ranks; ++i)
    card.unreached[i / 8] |= static_cast<uint8_t>(unreached[i] << (i % 8));
  struct Listener {
    int socket = -1;
    ~Listener() {
      if (socket >= 0) close(socket);
    }
  } listener;
  if (std::find(unreached.begin(), unreached.end(), true) != unreached.end())
    FARCALL_NCCL_TRY(ListenAnywhere(&card.id, &listener.socket));
  std::vector<std::string> blobs;
  FARCALL_NCCL_TRY(
      bootstrap.AllGather(std::string(reinterpret_cast<const char*>(&card), sizeof(card)), &blobs));
  bool any = false;
  std::vector<bool> linked(ranks);
  for (size_t i = 0; i < ranks; ++i) {
    Card other;
    if (blobs[i].size() != sizeof(other))
      return Fail(ncclRemoteError, "rank %zu speaks another version", i);
    std::memcpy(&other, blobs[i].data(), sizeof(other));
    for (size_t j = 0; j < ranks; ++j) any |= Marks(other, j);
    linked[i] = unreached[i] || Marks(other, static_cast<size_t>(rank));
  }
  if (!any) return ncclSuccess;
  std::unique_ptr<Relay> relay(new Relay(ranks));
  std::vector<int> sockets(ranks, -1);
  ncclResult_t result =
      relay->Connect(rank, blobs, linked, listener.socket, card.id.secret, &sockets);
  for (size_t i = 0; i < ranks; ++i) {
    if (sockets[i] >= 0) relay->peers_[i] = std::make_unique<Peer>(sockets[i], own_flags[i]);
    if (sockets[i] >= 0 && result == ncclSuccess) result = relay->peers_[i]->Start();
  }
  FARCALL_NCCL_TRY(result);
  void* pinned = nullptr;
  FARCALL_NCCL_CUDA(cuMemHostAlloc, &pinned, kSlots * kChunkBytes, 0);
  relay->staged_ = static_cast<std::byte*>(pinned);
  const auto count = std::count(linked.begin(), linked.end(), true);
  if (count != 0) {
    client::Log(client::LogLevel::kWarn,
                "nccl: rank %d has no server in common with %ld of %zu ranks: what it exchanges "
                "with them goes through the clients",
                rank, static_cast<long>(count), ranks);
    *opened = std::move(relay);
  }
  // Nobody sends before all are connected.
  return bootstrap.AllGather("", &blobs);
}

ncclResult_t Relay::Raise(CUstream stream, int to, Flag flag, uint32_t value, CUdeviceptr slot,
                          uint64_t bytes) {
  Peer& peer = *peers_[static_cast<size_t>(to)];
  const uint32_t index = static_cast<uint32_t>(flag);
  const size_t offset = (value % kSlots) * SlotBytes(index);
  std::byte* staged = (flag == Flag::kReady ? staged_ : peer.staged) + offset;
  // A collective's slot is copied once for all who read it.
  if (bytes != 0 && (flag != Flag::kReady || staged_number_ != value)) {
    FARCALL_NCCL_CUDA(cuMemcpyDtoHAsync_v2, staged, slot, bytes, stream);
    if (flag == Flag::kReady) staged_number_ = value;
  }
  auto parcel = std::make_unique<Parcel>(
      Parcel{peer.wire, {index, value, static_cast<uint32_t>(bytes)}, staged});
  FARCALL_NCCL_CUDA(cuLaunchHostFunc, stream, SendParcel, parcel.get());
  (void)parcel.release();
  return ncclSuccess;
}

bool Relay::AllPresent() const {
  return std::none_of(peers_.begin(), peers_.end(), [](const std::unique_ptr<Peer>& peer) {
    return peer != nullptr && peer->wire->lost;
  });
}

void Relay::Shutdown() {
  for (const auto& peer : peers_)
    if (peer != nullptr) peer->Shutdown();
}

}  // namespace farcall::nccl
