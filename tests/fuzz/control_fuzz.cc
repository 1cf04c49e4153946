// SPDX-License-Identifier: Apache-2.0
// What a worker that was taken over can say to the supervisor: packets of any bytes with any
// descriptors, and messages of every type, in any order, at any time, beside an honest worker. The
// honest one gets its lease and its memory, and the books stay right. The same bytes are read as
// what every other process may send. make_control_seeds.py says what an input is.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "quota/memory/memory_ledger.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/leases/lease_scheduler.h"
#include "server/leases/swap_scheduler.h"
#include "server/supervisor/processes/worker_inbox.h"
#include "server/supervisor/sharing/net_scheduler.h"

namespace {

using namespace farcall;
using namespace farcall::server;
using quota::kMillisecond;
using quota::kSecond;
using quota::Ns;

constexpr int kHonest = 1, kHostile = 2, kDevices = 2;
constexpr uint64_t kMiB = uint64_t{1} << 20, kDevice = 1024 * kMiB, kQuota = 512 * kMiB;

void Require(bool holds) {
  if (!holds) std::abort();
}

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    uint8_t value = bytes_[0];
    bytes_ = bytes_.subspan(1);
    return value;
  }
  // Mostly what matters: the ends, sizes of memory, small numbers.
  uint64_t Number() {
    const uint8_t pick = Byte();
    switch (pick >> 5) {
      case 0:
        return pick & 31;
      case 1:
        return ~uint64_t{0} - (pick & 31);
      case 2:
        return uint64_t{1} << (pick & 31) * 2;
      case 3:
        return (pick & 31u) * 32 * kMiB;
      case 4:
        return (pick & 31u) * static_cast<uint64_t>(kMillisecond);
      default: {
        uint64_t value = 0;
        for (int i = 0; i < 8; ++i) value = value << 8 | Byte();
        return value;
      }
    }
  }
  std::span<const uint8_t> Take(size_t bytes) {
    auto taken = bytes_.first(std::min(bytes, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const uint8_t> bytes_;
};

// The supervisor's books with two workers of two vGPUs.
class Host {
 public:
  Host()
      : leases_(kDevices, {},
                [this](int to, const LeaseMessage& message) { OnMessage(to, message); }),
        net_(0, [](int, const NetMessage&) {}),
        swap_(Options(), Books(), Hooks()) {
    for (int worker : {kHonest, kHostile}) {
      const std::string vgpu = std::to_string(worker);
      for (int device = 0; device < kDevices; ++device) ledger_.Open(vgpu, device, kQuota);
      Require(leases_.Join(vgpu, worker, {}, now_).ok());
      Require(net_.Join(vgpu, worker, 1'000'000, now_).ok());
      swap_.Join(worker, vgpu, quota::Priority::kNormal, now_);
    }
  }

  void Pass(Ns time) {
    now_ += time;
    Tick();
  }

  // As Supervisor::AnswerWorker.
  void Say(const control::FromWorker& message) {
    auto hear = [this](const auto& each) {
      if constexpr (requires { each.device; }) {
        if (each.device < 0 || each.device >= kDevices) return;  // Supervisor::HostDevice
      }
      if constexpr (requires { leases_.OnMessage(kHostile, each, now_); })
        leases_.OnMessage(kHostile, each, now_);
      else if constexpr (requires { net_.OnMessage(kHostile, each, now_); })
        net_.OnMessage(kHostile, each, now_);
      else if constexpr (requires { swap_.OnMessage(kHostile, each, now_); })
        swap_.OnMessage(kHostile, each, now_);
      else if constexpr (requires { Receive(each); })
        Receive(each);
    };
    std::visit(hear, message);
  }

  // Whatever was said, and is said while it waits, an honest session works.
  void HonestWorks(const std::vector<control::FromWorker>& again) {
    const size_t before = leases_of_honest_;
    leases_.OnMessage(kHonest, control::WantLease{}, now_);
    for (int i = 0; i < 100 && leases_of_honest_ == before; ++i) {
      for (const control::FromWorker& message : again) Say(message);
      Pass(100 * kMillisecond);
    }
    Require(leases_of_honest_ > before);
    bool has_memory = false;
    for (int i = 0; i < 2000 && !has_memory; ++i) {
      for (const control::FromWorker& message : again) Say(message);
      has_memory = Charge(kHonest, 0, kMiB);
      Pass(100 * kMillisecond);
    }
    Require(has_memory || ended_);
  }

  void Check() {
    for (int device = 0; device < kDevices; ++device) {
      uint64_t sum = 0;
      for (int worker : {kHonest, kHostile}) sum += charges_[worker][device].bytes();
      Require(sum == ledger_.charged_on_device(device));
      Require(sum <= 2 * kQuota);
      Require(swap_.resident_bytes(device) <= sum);
    }
    for (const quota::VgpuStatus& status : leases_.Statuses(now_))
      Require(status.gpu_time_ns >= 0 && status.gpu_time_ns <= 2 * now_ + 2 * kSecond);
    Require(net_.UseOf("1").bytes_in == 0);
  }

 private:
  static SwapOptions Options() {
    SwapOptions options;
    options.budget_bytes = options.lent_bytes = std::vector<uint64_t>(kDevices, kDevice);
    options.host_bytes = kDevice;
    return options;
  }
  SwapScheduler::Ledger Books() {
    return {[this](int worker, int device) { return charges_[worker][device].bytes(); },
            [this](int device) { return ledger_.charged_on_device(device); },
            [this](int worker, int device) {
              return ledger_.usage(std::to_string(worker), device).free_bytes();
            }};
  }
  SwapScheduler::Hooks Hooks() {
    return {[this](int to, const SwapMessage& message) { OnMessage(to, message); },
            [this](int worker, const std::string&) { ended_ = ended_ || worker == kHostile; },
            [](int, bool, uint64_t bytes, Ns took) {
              Require(bytes <= kDevices * kQuota);
              Require(took >= 0);
            }};
  }

  void Receive(const control::Refund& message) {
    charges_[kHostile][message.device].RefundSome(message.bytes);
  }
  void Receive(const control::Charge& message) { Charge(kHostile, message.device, message.bytes); }
  void Receive(const control::Share& message) {
    (void)charges_[kHostile][message.device].Split(message.bytes);
  }

  bool Charge(int worker, int device, uint64_t bytes) {
    std::string why;
    const std::string vgpu = std::to_string(worker);
    if (ledger_.usage(vgpu, device).free_bytes() < bytes) return false;
    if (swap_.Ask(worker, device, bytes, now_, &why) != SwapScheduler::Room::kThere) return false;
    auto charged = ledger_.Reserve(vgpu, device, bytes);
    Require(charged.ok());
    charges_[worker][device].Merge(std::move(*charged));
    return true;
  }

  // The honest worker uses what it is lent, and moves when it is asked.
  template <typename... Ms>
  void OnMessage(int to, const std::variant<Ms...>& message) {
    if (to != kHonest) return;
    std::visit([this](const auto& each) { told_.push_back(each); }, message);
  }
  void Tick() {
    leases_.Tick(now_);
    swap_.Tick(now_);
    net_.Tick(now_);
    for (const control::ToWorker& message : std::exchange(told_, {})) {
      if (const auto* lease = std::get_if<control::Lease>(&message)) {
        ++leases_of_honest_;
        leases_.OnMessage(
            kHonest, control::LeaseUse{.device = lease->device, .used_ns = lease->device_ns}, now_);
        leases_.OnMessage(kHonest, control::LeaseDone{.device = lease->device}, now_);
      } else if (std::holds_alternative<control::SwapOut>(message)) {
        swap_.OnMessage(kHonest, control::SwapDone{.outcome = control::SwapOutcome::kStayed}, now_);
      }
    }
  }

  Ns now_ = kSecond;
  quota::MemoryLedger ledger_;
  std::map<int, std::map<int, quota::Charge>> charges_;
  std::vector<control::ToWorker> told_;
  size_t leases_of_honest_ = 0;
  bool ended_ = false;
  LeaseScheduler leases_;
  NetScheduler net_;
  SwapScheduler swap_;
};

void Fill(Input& input, bool* field) {
  *field = (input.Byte() & 1) != 0;
}
void Fill(Input& input, int32_t* device) {
  *device = static_cast<int32_t>(input.Byte() % 4) - 1;
}
void Fill(Input& input, uint32_t* field) {
  *field = static_cast<uint32_t>(input.Number());
}
void Fill(Input& input, uint64_t* field) {
  *field = input.Number();
}
template <size_t kBytes>
void Fill(Input& input, std::array<uint8_t, kBytes>* field) {
  field->fill(input.Byte());
}
template <typename E>
requires std::is_enum_v<E>
void Fill(Input& input, E* field) {
  *field = static_cast<E>(input.Byte() % (static_cast<unsigned>(control::EnumRange<E>::kLast) + 1));
}
template <size_t kBound>
void Fill(Input& input, control::Text<kBound>* field) {
  auto text = input.Take(input.Byte());
  *field = std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

using Bytes = std::vector<std::byte>;

template <typename M>
bool EncodeIfTyped(Input& input, unsigned type, Bytes* bytes) {
  if (type != static_cast<unsigned>(M::kType)) return false;
  M message;
  std::apply([&](auto&... field) { (Fill(input, &field), ...); }, M::Fields(message));
  const control::Encoded<M> encoded(message);
  bytes->assign(encoded.bytes().begin(), encoded.bytes().end());
  return true;
}

// A message of a worker's, as bytes; of another type, or none, the header alone.
template <typename... Ms>
Bytes EncodeOneOf(Input& input, const std::variant<Ms...>&) {
  const unsigned type = input.Byte() % 64;
  Bytes bytes;
  if (!(EncodeIfTyped<Ms>(input, type, &bytes) || ...)) {
    bytes.resize(control::kHeaderBytes);
    Writer out(bytes);
    out.Put(control::kVersion);
    out.Put(static_cast<uint16_t>(type));
  }
  return bytes;
}

size_t EncodedBytes(const auto& message) {
  return std::visit(
      [](const auto& each) {
        return control::Encoded<std::remove_cvref_t<decltype(each)>>(each).bytes().size();
      },
      message);
}

// What is taken for a message is one, whole, and nothing else.
template <typename Messages>
void ReadAs(std::span<const std::byte> bytes) {
  Messages message;
  Status read = control::Decode(bytes, &message);
  Require(read.ok() || read.code() == Code::kMalformed);
  Require(!read.ok() || EncodedBytes(message) == bytes.size());
}

void ReadAsAll(std::span<const std::byte> bytes) {
  ReadAs<control::ToWorker>(bytes);
  ReadAs<control::FromWorker>(bytes);
  ReadAs<control::FromProbe>(bytes);
  ReadAs<control::ToProcessMemory>(bytes);
  ReadAs<control::FromProcessMemory>(bytes);
  ReadAs<control::ToControlPlane>(bytes);
  ReadAs<control::FromControlPlane>(bytes);
  ReadAs<control::ToPoolAgent>(bytes);
  ReadAs<control::FromPoolAgent>(bytes);
  ReadAs<control::FromTlsGateway>(bytes);
}

// False: it is none that the supervisor hears.
bool Message(Input& input, control::FromWorker* message) {
  const Bytes bytes = EncodeOneOf(input, *message);
  const bool is_valid = control::Decode(bytes, message).ok();
  Require(!is_valid || EncodedBytes(*message) == bytes.size());
  return is_valid;
}

// Any bytes, or those of a message with one thing wrong.
Bytes PacketBytes(Input& input, uint8_t kind) {
  if ((kind & 8) != 0) {
    auto given = input.Take(input.Byte() * 20u);
    auto bytes = std::as_bytes(given);
    return {bytes.begin(), bytes.end()};
  }
  Bytes bytes = EncodeOneOf(input, control::FromWorker{});
  if ((kind & 16) != 0) bytes[input.Byte() & 1] ^= std::byte{input.Byte()};
  if ((kind & 32) != 0) bytes.resize(bytes.size() - std::min<size_t>(input.Byte(), bytes.size()));
  if ((kind & 64) != 0) bytes.resize(bytes.size() + input.Byte() * 20u);
  if ((kind & 128) != 0 && !bytes.empty()) {
    std::byte& one = bytes[input.Byte() % bytes.size()];
    one = std::byte{input.Byte()};
  }
  return bytes;
}

// One packet through the socket: what is taken is a message of a worker's, with memory or nothing.
void SendPacket(Input& input) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  const uint8_t kind = input.Byte();
  std::vector<int> carried;
  int pipe_ends[2] = {-1, -1};
  if ((kind & 1) != 0) carried.push_back(memfd_create("fuzz", MFD_CLOEXEC));
  if ((kind & 2) != 0 && pipe2(pipe_ends, O_CLOEXEC) == 0) carried.push_back(pipe_ends[0]);
  if ((kind & 4) != 0 && !carried.empty()) carried.push_back(carried[0]);
  Bytes bytes = PacketBytes(input, kind);
  ReadAsAll(bytes);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char rights[CMSG_SPACE(sizeof(int) * 4)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!carried.empty()) {
    header.msg_control = rights;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * carried.size());
    cmsghdr* one = CMSG_FIRSTHDR(&header);
    one->cmsg_level = SOL_SOCKET;
    one->cmsg_type = SCM_RIGHTS;
    one->cmsg_len = CMSG_LEN(sizeof(int) * carried.size());
    std::memcpy(CMSG_DATA(one), carried.data(), sizeof(int) * carried.size());
  }
  if (sendmsg(ends[1], &header, MSG_DONTWAIT) >= 0 && !bytes.empty()) {
    control::FromWorker message;
    int descriptor = -1;
    Status taken = TakeFromWorker(ends[0], &message, &descriptor);
    Require(taken.ok() || descriptor < 0);
    if (taken.ok()) {
      Require(EncodedBytes(message) == bytes.size());
      Require(carried.empty() || control::CarriesOf(message) == control::Carries::kMemory ||
              control::CarriesOf(message) == control::Carries::kMemoryFile);
      Require((descriptor >= 0) == !carried.empty());
      Require(descriptor < 0 || IsMemoryDescriptor(descriptor));
    }
    if (descriptor >= 0) close(descriptor);
  }
  std::sort(carried.begin(), carried.end());
  carried.erase(std::unique(carried.begin(), carried.end()), carried.end());
  for (int fd : carried) close(fd);
  if (pipe_ends[1] >= 0) close(pipe_ends[1]);
  for (int fd : ends) close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  Input input({data, bytes});
  Host host;
  std::vector<control::FromWorker> said;
  for (int steps = 0; steps < 256 && !input.empty(); ++steps) {
    const uint8_t step = input.Byte();
    control::FromWorker message;
    if (step < 16) {
      SendPacket(input);
    } else if (step < 64) {
      host.Pass(static_cast<Ns>(step) * step * kMillisecond / 16);
    } else if (Message(input, &message)) {
      host.Say(message);
      said.push_back(std::move(message));
    }
    host.Check();
  }
  if (said.size() > 16) said.erase(said.begin(), said.end() - 16);
  host.HonestWorks(said);
  host.Check();
  return 0;
}
