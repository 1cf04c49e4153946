// SPDX-License-Identifier: Apache-2.0
// Reading and writing of fuzz_serve's inputs.
#include "tests/fuzz/serve_items.h"

#include <algorithm>
#include <cstring>

#include "proto/wire.h"
#include "server/state/serve.h"

namespace farcall::fuzz {

bool NextItem(std::span<const uint8_t>* input, ItemHeader* header, std::span<const uint8_t>* body) {
  if (input->size() < sizeof(*header)) return false;
  std::memcpy(header, input->data(), sizeof(*header));
  *input = input->subspan(sizeof(*header));
  *body = input->first(std::min<size_t>({header->bytes, input->size(), kMaxInlineBytes}));
  *input = input->subspan(body->size());
  return true;
}

std::vector<Item> ParseItems(std::span<const uint8_t> input) {
  std::vector<Item> items;
  ItemHeader header;
  std::span<const uint8_t> body;
  while (NextItem(&input, &header, &body)) items.push_back({header, {body.begin(), body.end()}});
  return items;
}

std::vector<uint8_t> EncodeItems(uint8_t mode, const std::vector<Item>& items) {
  std::vector<uint8_t> bytes{mode};
  for (const Item& item : items) {
    ItemHeader header = item.header;
    header.bytes = static_cast<uint32_t>(item.body.size());
    auto* at = reinterpret_cast<const uint8_t*>(&header);
    bytes.insert(bytes.end(), at, at + sizeof(header));
    bytes.insert(bytes.end(), item.body.begin(), item.body.end());
  }
  return bytes;
}

uint16_t ChooseCall(uint16_t call) {
  using server::kDispatchRows;
  using server::kDispatchTable;
  static const std::vector<uint16_t> served = [] {
    std::vector<uint16_t> calls;
    for (uint16_t id = 0; id < kDispatchRows; ++id)
      if (kDispatchTable[id].serve != nullptr) calls.push_back(id);
    return calls;
  }();
  bool is_known =
      call >= kFirstSessionCall || (call < kDispatchRows && kDispatchTable[call].serve != nullptr);
  return is_known ? call : served[call % served.size()];
}

}  // namespace farcall::fuzz
