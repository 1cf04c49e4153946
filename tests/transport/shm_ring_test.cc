// SPDX-License-Identifier: Apache-2.0
// The ring's protocol (transport/shm/ring.h), run through every interleaving of its steps on a
// machine whose processors delay stores (x86's order: loads may pass earlier stores of other
// words). Nothing here times out, so that a wake-up that is lost is a state in which nobody can go
// on.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transport/shm/ring.h"

namespace farcall {
namespace {

enum class Word : uint8_t { kTail, kHead, kReaderSleep, kWriterSleep };
enum class Kind : uint8_t {
  kLoad,
  kStore,
  kFence,
  kRingBell,
  kWaitForBell,
  kWakeHeadWaiters,
  kFallAsleep,  // a futex: compares, and sleeps if it is equal
  kAwake,
};

struct Step {
  Kind kind;
  Word word = Word::kTail;
  uint64_t value = 0;
};

// What a side does next follows from what its steps have given so far: it is run again from its
// beginning, with these results, up to the first step that has none.
class ModelWords {
 public:
  explicit ModelWords(const std::vector<uint64_t>& results) : results_(results) {}

  bool has_fences = true, looks_again = true;

  uint64_t LoadTail() {
    const uint64_t tail = Do({Kind::kLoad, Word::kTail});
    return looks_again || !is_asleep_ ? tail : head_;
  }
  uint64_t LoadHead() { return Do({Kind::kLoad, Word::kHead}); }
  uint32_t LoadReaderSleep() {
    return static_cast<uint32_t>(Do({Kind::kLoad, Word::kReaderSleep}));
  }
  uint32_t LoadWriterSleep() {
    return static_cast<uint32_t>(Do({Kind::kLoad, Word::kWriterSleep}));
  }
  void StoreTail(uint64_t tail) { Do({Kind::kStore, Word::kTail, tail}); }
  void StoreHead(uint64_t head) {
    head_ = head;
    Do({Kind::kStore, Word::kHead, head});
  }
  void StoreReaderSleep(uint32_t sleep) {
    is_asleep_ = sleep != 0;
    Do({Kind::kStore, Word::kReaderSleep, sleep});
  }
  void StoreWriterSleep(uint32_t sleep) { Do({Kind::kStore, Word::kWriterSleep, sleep}); }
  void Fence() {
    if (has_fences) Do({Kind::kFence});
  }
  void RingBell() { Do({Kind::kRingBell}); }
  bool WaitForBell() { return Do({Kind::kWaitForBell}) != 0; }
  void WakeHeadWaiters() { Do({Kind::kWakeHeadWaiters}); }
  void WaitWhileHead(uint64_t head) {
    if (Do({Kind::kFallAsleep, Word::kHead, head}) != 0) Do({Kind::kAwake});
  }

 private:
  uint64_t Do(const Step& step) {
    if (at_ == results_.size()) throw step;
    return results_[at_++];
  }

  const std::vector<uint64_t>& results_;
  size_t at_ = 0;
  bool is_asleep_ = false;
  uint64_t head_ = 0;
};

struct Model {
  uint64_t capacity = 1, messages = 3;
  bool has_fences = true, looks_again = true, numbers_sleeps = true;

  void Write(ModelWords& words) const {
    uint32_t rung = 0;
    for (uint64_t tail = 0; tail < messages;) {
      const uint64_t head = words.LoadHead();
      if (tail - head == capacity) {
        SleepForRoom(words, head);
        continue;
      }
      words.StoreTail(++tail);
      WakeReader(words, &rung);
    }
  }
  void Read(ModelWords& words) const {
    uint32_t sleep = 0;
    for (uint64_t head = 0; head < messages;) {
      const uint64_t tail = words.LoadTail();
      EXPECT_LE(tail - head, capacity);
      if (tail == head) {
        SleepForData(words, head, &sleep);
        sleep = numbers_sleeps ? sleep : 0;
        continue;
      }
      head = tail;
      words.StoreHead(head);
      WakeWriter(words);
    }
  }
};

constexpr int kWriter = 0, kReader = 1;

struct State {
  std::array<uint64_t, 4> memory{};
  std::array<std::vector<Step>, 2> delayed;  // a side's stores that the other does not see yet
  std::array<std::vector<uint64_t>, 2> results;
  bool is_rung = false, is_writer_asleep = false;

  std::string Key() const {
    std::string key;
    const auto add = [&key](uint64_t value) { key += std::to_string(value) + ","; };
    for (uint64_t word : memory) add(word);
    for (const auto& stores : delayed) {
      key += ';';
      for (const Step& store : stores) {
        add(static_cast<uint64_t>(store.word));
        add(store.value);
      }
    }
    for (const auto& each : results) {
      key += ';';
      for (uint64_t result : each) add(result);
    }
    add(is_rung);
    add(is_writer_asleep);
    return key;
  }
};

// Explores all states that can be reached.
class Explorer {
 public:
  explicit Explorer(const Model& model) : model_(model) {}

  // How many there are in which a side has work left and neither can take a step.
  size_t CountStuck() {
    std::vector<State> left = {State()};
    size_t stuck = 0;
    while (!left.empty()) {
      const State state = std::move(left.back());
      left.pop_back();
      if (!seen_.insert(state.Key()).second) continue;
      bool can_go_on = false, is_done = true;
      for (int side : {kWriter, kReader}) {
        if (!state.delayed[side].empty()) {
          left.push_back(Drained(state, side));
          can_go_on = true;
        }
        if (const std::optional<Step> step = Next(state, side)) {
          is_done = false;
          if (std::optional<State> next = After(state, side, *step)) {
            left.push_back(std::move(*next));
            can_go_on = true;
          }
        }
      }
      stuck += !is_done && !can_go_on;
    }
    return stuck;
  }
  size_t states() const { return seen_.size(); }

 private:
  std::optional<Step> Next(const State& state, int side) const {
    ModelWords words(state.results[side]);
    words.has_fences = model_.has_fences;
    words.looks_again = model_.looks_again;
    try {
      side == kWriter ? model_.Write(words) : model_.Read(words);
    } catch (const Step& step) {
      return step;
    }
    return std::nullopt;
  }

  static State Drained(State state, int side) {
    const Step store = state.delayed[side].front();
    state.delayed[side].erase(state.delayed[side].begin());
    state.memory[static_cast<size_t>(store.word)] = store.value;
    return state;
  }

  // None: the step has to wait.
  static std::optional<State> After(State state, int side, const Step& step) {
    const bool is_plain = step.kind == Kind::kLoad || step.kind == Kind::kStore;
    if (!is_plain && !state.delayed[side].empty())
      return std::nullopt;  // fences and system calls: stores are seen first
    uint64_t result = 0;
    uint64_t& word = state.memory[static_cast<size_t>(step.word)];
    switch (step.kind) {
      case Kind::kLoad:
        result = word;
        for (const Step& own : state.delayed[side])
          result = own.word == step.word ? own.value : result;
        break;
      case Kind::kStore:
        state.delayed[side].push_back(step);
        break;
      case Kind::kFence:
        break;
      case Kind::kRingBell:
        state.is_rung = true;
        break;
      case Kind::kWaitForBell:
        if (!state.is_rung) return std::nullopt;
        state.is_rung = false;
        result = 1;
        break;
      case Kind::kWakeHeadWaiters:
        state.is_writer_asleep = false;
        break;
      case Kind::kFallAsleep:
        state.is_writer_asleep = word == step.value;
        result = state.is_writer_asleep;
        break;
      case Kind::kAwake:
        if (state.is_writer_asleep) return std::nullopt;
        break;
    }
    state.results[side].push_back(result);
    return state;
  }

  const Model model_;
  std::set<std::string> seen_;
};

TEST(ShmRingModelTest, NobodySleepsForGood) {
  for (const auto& [capacity, messages] :
       {std::pair(1, 1), std::pair(1, 2), std::pair(1, 3), std::pair(2, 3), std::pair(4, 3)}) {
    Model model;
    model.capacity = static_cast<uint64_t>(capacity);
    model.messages = static_cast<uint64_t>(messages);
    Explorer explorer(model);
    EXPECT_EQ(explorer.CountStuck(), 0u) << capacity << ", " << messages;
    EXPECT_GT(explorer.states(), 20u * static_cast<unsigned>(messages * messages));
  }
}

// Of a model that finds nothing, nobody would know.
TEST(ShmRingModelTest, FindsAFenceThatIsMissing) {
  Model model;
  model.has_fences = false;
  EXPECT_NE(Explorer(model).CountStuck(), 0u);
}

TEST(ShmRingModelTest, FindsAReaderThatDoesNotLookAgain) {
  Model model;
  model.looks_again = false;
  EXPECT_NE(Explorer(model).CountStuck(), 0u);
}

TEST(ShmRingModelTest, FindsSleepsThatAreNotToldApart) {
  Model model;
  model.numbers_sleeps = false;
  EXPECT_NE(Explorer(model).CountStuck(), 0u);
}

}  // namespace
}  // namespace farcall
