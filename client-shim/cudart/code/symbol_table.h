// SPDX-License-Identifier: Apache-2.0
// Address -> Value*, read without a lock on every launch. Writers hold a mutex of theirs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace farcall::cudart {

// Open addressing; a table that fills is replaced by one of twice its size and kept, since readers
// may be in it.
template <typename Value>
class SymbolTable {
 public:
  Value* Find(const void* key) const {
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr) return nullptr;
    for (size_t at = Hash(key);; ++at) {
      const Slot& slot = table->slots[at & table->mask];
      const void* held = slot.key.load(std::memory_order_acquire);
      if (held == key) return slot.value.load(std::memory_order_acquire);
      if (held == nullptr) return nullptr;
    }
  }

  // A null value removes: the key stays and is found no more.
  void Put(const void* key, Value* value) {
    Table* table = table_.load(std::memory_order_relaxed);
    if (table == nullptr || table->used * 2 > table->mask) table = Grow(table);
    Insert(table, key, value);
  }

 private:
  struct Slot {
    std::atomic<const void*> key{nullptr};
    std::atomic<Value*> value{nullptr};
  };
  struct Table {
    explicit Table(size_t size) : mask(size - 1), slots(new Slot[size]) {}
    size_t mask;
    size_t used = 0;
    std::unique_ptr<Slot[]> slots;
  };

  static size_t Hash(const void* key) {
    return (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15u) >> 20;
  }

  static void Insert(Table* table, const void* key, Value* value) {
    for (size_t at = Hash(key);; ++at) {
      Slot& slot = table->slots[at & table->mask];
      const void* held = slot.key.load(std::memory_order_relaxed);
      if (held == nullptr) {
        slot.value.store(value, std::memory_order_release);
        slot.key.store(key, std::memory_order_release);
        ++table->used;
        return;
      }
      if (held == key) {
        slot.value.store(value, std::memory_order_release);
        return;
      }
    }
  }

  Table* Grow(const Table* old) {
    auto* table = new Table(old == nullptr ? 256 : (old->mask + 1) * 2);
    for (size_t i = 0; old != nullptr && i <= old->mask; ++i) {
      Value* value = old->slots[i].value.load(std::memory_order_relaxed);
      if (value != nullptr) Insert(table, old->slots[i].key.load(std::memory_order_relaxed), value);
    }
    table_.store(table, std::memory_order_release);
    return table;
  }

  std::atomic<Table*> table_{nullptr};
};

}  // namespace farcall::cudart
