// SPDX-License-Identifier: Apache-2.0
// Mutations of fuzz_serve's inputs that keep them items, and put into bodies what a session knows:
// live handles, addresses of its memory, small numbers.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>

#include "proto/wire.h"
#include "server/state/serve.h"
#include "tests/fuzz/serve_device.h"
#include "tests/fuzz/serve_items.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace farcall::fuzz {

namespace {

constexpr size_t kMaxItems = 64;
constexpr size_t kMaxBodyBytes = 4096;

class Mutator {
 public:
  Mutator(std::vector<Item>* items, unsigned seed) : items_(*items), random_(seed) {}

  void Run() {
    int steps = 1 + Below(3);
    for (int i = 0; i < steps; ++i) Step();
  }

 private:
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_()) % bound; }
  Item& Any() { return items_[Below(static_cast<uint32_t>(items_.size()))]; }

  void Step() {
    if (items_.empty()) return Insert(MakeCall());
    switch (Below(16)) {
      case 0:
      case 1:
      case 2:
        return MutateBody(Any());
      case 3:
      case 4:
      case 5:
      case 6:
      case 7:
        return Poke(Any());
      case 8:
        return Insert(MakeCall());
      case 9:
        return Insert(Any());
      case 10:
        items_.erase(items_.begin() + Below(static_cast<uint32_t>(items_.size())));
        return;
      case 11:
        return std::swap(Any(), Any());
      case 12:
        Any().header.flags ^= Flag();
        return;
      case 13:
        return MutateHeader(Any());
      case 14:
        return Insert(MakeAnswer());
      default:
        return Resize(Any());
    }
  }

  uint16_t Flag() {
    constexpr uint16_t kFlags[] = {kWantReply, kSameFrame, kBusy};
    return kFlags[Below(3)];
  }

  void MutateHeader(Item& item) {
    switch (Below(3)) {
      case 0:
        item.header.call = AnyCall();
        return;
      case 1:
        item.header.context = static_cast<uint16_t>(Below(kContexts + 2));
        return;
      default:
        item.header.thread = static_cast<uint16_t>(Below(4));
        return;
    }
  }

  void MutateBody(Item& item) {
    size_t bytes = item.body.size();
    item.body.resize(std::min(kMaxBodyBytes, bytes + 64));
    item.body.resize(
        LLVMFuzzerMutate(item.body.data(), std::min(bytes, kMaxBodyBytes), item.body.size()));
  }

  // A word, or half of one, becomes something that means something.
  void Poke(Item& item) {
    size_t step = Below(4) == 0 ? 4 : 8;
    size_t places = item.body.size() / step;
    if (places == 0) return Resize(item);
    uint64_t word = Word();
    std::memcpy(item.body.data() + step * Below(static_cast<uint32_t>(places)), &word, step);
  }

  void Resize(Item& item) {
    size_t words = item.body.size() / 8 + Below(4);
    item.body.resize(std::min(kMaxBodyBytes, 8 * (words - std::min<size_t>(words, Below(3)))));
  }

  uint64_t Word() {
    switch (Below(8)) {
      case 0:
      case 1:
        return Handle(1 + Below(kLiveHandles), 1);
      case 2:
        return Handle(Below(2) == 0 ? 1 + Below(kLiveHandles) : 1000 + Below(32),
                      static_cast<uint16_t>(Below(4)));
      case 3:
        return kWindowBase + 16 * uint64_t{Below(static_cast<uint32_t>(kCreditBytes / 8))};
      case 4:
        return kWindowBase + uint64_t{Below(3)} * kChunkGranularityBytes - Below(3);
      case 5:
        return uint64_t{1} << Below(64);
      case 6:
        return ~uint64_t{0} - Below(3);
      default:
        return Below(20);
    }
  }

  uint64_t Handle(uint32_t index, uint16_t generation) {
    auto kind = static_cast<HandleKind>(1 + Below(static_cast<uint32_t>(HandleKind::kLast)));
    return MakeHandle(kind, index, generation);
  }

  uint16_t AnyCall() {
    constexpr SessionCall kMessages[] = {SessionCall::kNeedCredit, SessionCall::kReturnCredit,
                                         SessionCall::kFenceFrees, SessionCall::kHostDone,
                                         SessionCall::kNamedImage, SessionCall::kNvml};
    uint32_t pick = Below(server::kDispatchRows + 16u);
    if (pick < server::kDispatchRows) return ChooseCall(static_cast<uint16_t>(pick));
    return pick % 4 == 0 ? kChunkItem : static_cast<uint16_t>(kMessages[Below(6)]);
  }

  Item MakeCall() {
    Item item{{AnyCall(), static_cast<uint16_t>(kWantReply * Below(2)), 1,
               static_cast<uint16_t>(1 + Below(2)), 0},
              {}};
    item.body.resize(8 * Below(12));
    for (size_t i = 0; i < item.body.size(); i += 8) {
      uint64_t word = Word();
      std::memcpy(item.body.data() + i, &word, 8);
    }
    return item;
  }

  // The device refuses, or is not ready yet.
  Item MakeAnswer() {
    constexpr CUresult kResults[] = {CUDA_ERROR_NOT_READY, CUDA_ERROR_OUT_OF_MEMORY,
                                     CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_ILLEGAL_ADDRESS};
    constexpr std::string_view kPolled[] = {"cuEventQuery", "cuStreamQuery", "cuEventRecord",
                                            "cuEventCreate", "cuStreamIsCapturing"};
    auto names = DeviceNames();
    std::string_view name =
        Below(2) == 0 ? kPolled[Below(5)] : names[Below(static_cast<uint32_t>(names.size()))];
    struct {
      uint16_t name, times;
      int32_t result;
    } answer{NameHash(name), static_cast<uint16_t>(1 + Below(4)),
             static_cast<int32_t>(kResults[Below(4)])};
    Item item{{kDeviceItem, 0, 0, 0, 0}, std::vector<uint8_t>(sizeof(answer))};
    std::memcpy(item.body.data(), &answer, sizeof(answer));
    return item;
  }

  void Insert(Item item) {
    if (items_.size() < kMaxItems) {
      items_.insert(items_.begin() + Below(static_cast<uint32_t>(items_.size()) + 1),
                    std::move(item));
    }
  }

  std::vector<Item>& items_;
  std::minstd_rand random_;
};

size_t Store(const std::vector<uint8_t>& bytes, uint8_t* data, size_t max_size) {
  size_t size = std::min(bytes.size(), max_size);
  std::memcpy(data, bytes.data(), size);
  return size;
}

bool HasItems(const uint8_t* data, size_t size) {
  return size != 0 && (data[0] & kRawFrame) == 0;
}

}  // namespace

}  // namespace farcall::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace farcall::fuzz;
  if (!HasItems(data, size) || seed % 32 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<Item> items = ParseItems({data + 1, size - 1});
  Mutator(&items, seed).Run();
  uint8_t mode = seed % 16 == 1 ? data[0] ^ kPrepared : data[0];
  return Store(EncodeItems(mode, items), data, max_size);
}

// The first items of one, the last of the other.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1,
                                            const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t max_size, unsigned seed) {
  using namespace farcall::fuzz;
  if (!HasItems(data1, size1) || !HasItems(data2, size2)) return 0;
  std::vector<Item> items = ParseItems({data1 + 1, size1 - 1});
  std::vector<Item> others = ParseItems({data2 + 1, size2 - 1});
  std::minstd_rand random(seed);
  items.resize(random() % (items.size() + 1));
  size_t from = random() % (others.size() + 1);
  items.insert(items.end(), others.begin() + static_cast<ptrdiff_t>(from), others.end());
  items.resize(std::min(items.size(), kMaxItems));
  return Store(EncodeItems(data1[0], items), out, max_size);
}
