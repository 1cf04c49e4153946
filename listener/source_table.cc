// SPDX-License-Identifier: Apache-2.0
#include "listener/source_table.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/handshake/handshake.h"

namespace farcall {

namespace {

// With one, as many newcomers as others would go; with very many, all who wait a little longer.
constexpr int kSamples = 4;

uint64_t RandomSeed() {
  std::array<uint8_t, sizeof(uint64_t)> bytes{};
  RandomBytes(bytes);
  uint64_t seed = 0;
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  return seed;
}

}  // namespace

SourceTable::SourceTable() : SourceTable(RandomSeed()) {}

void SourceTable::Weigh(uint64_t name, Source& source, size_t weight) {
  if (source.weight != 0) {
    std::vector<uint64_t>& rank = ranks_[source.weight];
    sources_[rank.back()].rank = source.rank;
    rank[source.rank] = rank.back();
    rank.pop_back();
    if (rank.empty()) ranks_.erase(source.weight);
  }
  weight_ += weight - source.weight;
  source.weight = weight;
  if (weight != 0) {
    std::vector<uint64_t>& rank = ranks_[weight];
    source.rank = rank.size();
    rank.push_back(name);
  }
}

void SourceTable::Add(uint64_t id, uint64_t name, size_t weight) {
  Source& source = sources_[name];
  places_[id] = {name, source.ids.size(), weight};
  source.ids.push_back(id);
  Weigh(name, source, source.weight + weight);
}

void SourceTable::SetWeight(uint64_t id, size_t weight) {
  Place& place = places_.at(id);
  Source& source = sources_.at(place.source);
  Weigh(place.source, source, source.weight - place.weight + weight);
  place.weight = weight;
}

void SourceTable::Remove(uint64_t id) {
  const Place place = places_.at(id);
  Source& source = sources_.at(place.source);
  Weigh(place.source, source, source.weight - place.weight);
  places_.at(source.ids.back()).index = place.index;
  source.ids[place.index] = source.ids.back();
  source.ids.pop_back();
  if (source.ids.empty()) sources_.erase(place.source);
  places_.erase(id);
}

uint64_t SourceTable::PickOfFullest() {
  const std::vector<uint64_t>& fullest = ranks_.rbegin()->second;
  const std::vector<uint64_t>& ids = sources_.at(fullest[Below(fullest.size())]).ids;
  uint64_t oldest = ids[Below(ids.size())];
  for (int i = 1; i < kSamples; ++i) oldest = std::min(oldest, ids[Below(ids.size())]);
  return oldest;
}

uint64_t SourceTable::PickNext() {
  auto next = sources_.upper_bound(last_);
  if (next == sources_.end()) next = sources_.begin();
  last_ = next->first;
  return next->second.ids[Below(next->second.ids.size())];
}

}  // namespace farcall
