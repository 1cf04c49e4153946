// SPDX-License-Identifier: Apache-2.0
// The inputs of fuzz_serve: a mode byte, then items, each a record to be sent or a stage direction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace farcall::fuzz {

enum Mode : uint8_t {
  kPrepared = 1,  // contexts, handles of every kind and memory are there
  kRawFrame = 2,  // the rest of the input is one frame's records, sizes and all
};

enum ItemFlags : uint16_t {
  kSameFrame = 0x8000,  // with the next item, if there is one
  kBusy = 0x4000,       // sent without waiting for what the session has begun
};

// Stage directions, in the place of a call.
constexpr uint16_t kChunkItem = 0xFFFF;   // {u64 transfer, u64 offset, payload}, as from a lane
constexpr uint16_t kDeviceItem = 0xFFFE;  // {u16 NameHash, u16 times, i32 result}: what the device
                                          // answers to that function

struct ItemHeader {
  uint16_t call, flags, thread, context;
  uint32_t bytes;
};
static_assert(sizeof(ItemHeader) == 12);

struct Item {
  ItemHeader header;
  std::vector<uint8_t> body;
};

// What a prepared session has.
constexpr uint64_t kWindowBase = 0x200000000000;
constexpr uint64_t kWindowBytes = 64u << 20;
constexpr uint64_t kCreditBytes = 16u << 20;
constexpr uint32_t kLiveHandles = 32;  // of each kind: index 1 to this, generation 1
constexpr uint32_t kContexts = 6;
constexpr int kDevices = 8;

// Takes the next item off `input`; false at its end. A body that is shorter than it says is what
// there is.
bool NextItem(std::span<const uint8_t>* input, ItemHeader* header, std::span<const uint8_t>* body);

std::vector<Item> ParseItems(std::span<const uint8_t> input);
std::vector<uint8_t> EncodeItems(uint8_t mode, const std::vector<Item>& items);

// The call an item means: its own if there is such, else one of those that are served.
uint16_t ChooseCall(uint16_t call);

}  // namespace farcall::fuzz
