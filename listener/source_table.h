// SPDX-License-Identifier: Apache-2.0
// Those who wait, by the address they come from. Its two picks make a bounded table fair: the
// address that holds the most gives way, and all addresses are served in turn. Within an address
// the picks are random, so that a flood cannot choose whom of its neighbours it pushes out.
// Knows no sockets and no time.   Thread  one at a time
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

namespace farcall {

class SourceTable {
 public:
  // `seed`: for tests; without it, nobody knows who is picked.
  SourceTable();
  explicit SourceTable(uint64_t seed) : random_(seed) {}

  // `id` is higher than all before it; `weight` is at least 1.
  void Add(uint64_t id, uint64_t source, size_t weight);
  void SetWeight(uint64_t id, size_t weight);  // of one that is in the table
  void Remove(uint64_t id);
  size_t weight() const { return weight_; }  // of all
  bool empty() const { return places_.empty(); }

  // Of the source that weighs most, or of one of those: of a few random ones that which has waited
  // longest. An honest peer needs a moment only, so that hardly ever it is the one. The table is
  // not empty.
  uint64_t PickOfFullest();
  // A random one of the source whose turn it is. The table is not empty.
  uint64_t PickNext();

 private:
  struct Source {
    size_t weight = 0;
    size_t rank = 0;  // its index in ranks_[weight]
    std::vector<uint64_t> ids;
  };
  struct Place {
    uint64_t source = 0;
    size_t index = 0;  // in Source::ids
    size_t weight = 0;
  };
  void Weigh(uint64_t name, Source& source, size_t weight);
  size_t Below(size_t count) { return static_cast<size_t>(random_() % count); }

  std::unordered_map<uint64_t, Place> places_;     // by id
  std::map<uint64_t, Source> sources_;             // no hash: peers choose their addresses
  std::map<size_t, std::vector<uint64_t>> ranks_;  // by weight: the sources that weigh so much
  size_t weight_ = 0;
  uint64_t last_ = 0;  // the source that was served last
  std::mt19937_64 random_;
};

}  // namespace farcall
