// SPDX-License-Identifier: Apache-2.0
// A program builds the graph of each new shape as it built the last one's: of an operation a graph,
// of that heuristics, engines, a plan. What it did with the last descriptor of a kind is asked
// ahead with the next, so that the whole of it is one wait. An answer ahead is the library's own,
// to the question as the program will ask it; what it does not ask is dropped.
#include <algorithm>
#include <cstring>

#include "client-shim/cudnn/backend.h"
#include "client-shim/thin/kept.h"
#include "proto/codec.h"

namespace farcall::thin {

namespace {

using cudnn::kKind_cudnnHandle_t;

constexpr size_t kMaxQuestions = 16;  // noted of one kind
constexpr size_t kMaxFinalizes = 4;
constexpr int kMaxDepth = 8;

bool SameStep(const BackendStep& one, const BackendStep& other) {
  return one.attribute == other.attribute && one.type == other.type && one.count == other.count &&
         one.is_null == other.is_null && one.bytes == other.bytes && one.ids == other.ids;
}

bool Same(const Habit& one, const Habit& other) {
  return one.finalizes == other.finalizes && one.attribute == other.attribute &&
         one.type == other.type && one.requested == other.requested && one.form == other.form &&
         one.types == other.types &&
         std::equal(one.steps.begin(), one.steps.end(), other.steps.begin(), other.steps.end(),
                    SameStep);
}

Habit* Note(Habits* habits, Habit habit, size_t most) {
  if (habits == nullptr) return nullptr;
  size_t alike = 0;
  for (Habit& known : *habits) {
    if (Same(known, habit)) return &known;
    alike += known.finalizes == habit.finalizes ? 1 : 0;
  }
  if (alike >= most) return nullptr;
  habits->push_back(std::move(habit));
  return &habits->back();
}

// The one descriptor that all of them name; null: there is none, or several.
const BackendContent* OnlyNamed(const std::vector<BackendStep>& steps) {
  const BackendContent* only = nullptr;
  for (const BackendStep& step : steps) {
    for (const BackendContentRef& named : step.contents) {
      if (named == nullptr || (only != nullptr && only != named.get())) return nullptr;
      only = named.get();
    }
  }
  return only;
}

// Its handles are still the program's.
bool IsCurrent(const std::vector<BackendStep>& steps) {
  for (const BackendStep& step : steps) {
    for (size_t i = 0; i < step.handles.size(); ++i) {
      client::LibraryObject* handle = Find(step.handles[i], kKind_cudnnHandle_t);
      if (handle == nullptr || handle->id.load() != step.ids[i]) return false;
    }
  }
  return true;
}

}  // namespace

Habit* NoteQuestion(Habits* habits, Habit question) {
  return Note(habits, std::move(question), kMaxQuestions);
}

void NoteFinalize(int32_t type, const std::vector<BackendStep>& steps) {
  const BackendContent* named = OnlyNamed(steps);
  if (named == nullptr) return;
  Habit habit;
  habit.finalizes = true;
  habit.type = type;
  habit.steps = steps;
  for (BackendStep& step : habit.steps) {
    if (step.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
    step.contents.clear();  // each is the one it is done to
    step.handles.clear();
    step.ids.clear();
  }
  Note(named->habits, std::move(habit), kMaxFinalizes);
}

Nexts::Nexts(const BackendContentRef& content, uint64_t name) {
  std::lock_guard lock(TheBackendContents().mutex);
  AddAll(*content->habits, content, name, 0);
}

Nexts::~Nexts() {
  for (Next& next : nexts_) {
    for (client::LibraryObject* slot : next.slots)
      if (slot != nullptr) Channel().end_object(slot);
  }
}

void Nexts::AddAll(Habits& habits, const BackendContentRef& of, uint64_t name, int depth) {
  if (depth == kMaxDepth) return;
  for (Habit& habit : habits) {
    if (nexts_.size() >= kBackendMostNext) return;
    if (habit.finalizes)
      AddFinalize(habit, of, name, depth);
    else
      AddQuestion(habit, of, name, depth);
  }
}

void Nexts::AddQuestion(Habit& habit, const BackendContentRef& of, uint64_t name, int depth) {
  Next next;
  next.habit = &habit;
  next.of = of;
  next.of_name = name;
  for (size_t i = 0; i < habit.types.size(); ++i) {
    next.slots.push_back(NewBackendSlot());
    next.made.push_back(std::make_shared<BackendContent>());
    next.made.back()->type = habit.types[i];
    next.made.back()->habits = &habit.of_made[i];
  }
  const bool has_room =
      std::find(next.slots.begin(), next.slots.end(), nullptr) == next.slots.end();
  nexts_.push_back(std::move(next));
  if (!has_room) return;  // Put sends no more than this
  const size_t at = nexts_.size() - 1;
  for (size_t i = 0; i < habit.types.size(); ++i) {
    AddAll(habit.of_made[i], BackendContentRef(nexts_[at].made[i]), nexts_[at].slots[i]->id.load(),
           depth + 1);
  }
}

void Nexts::AddFinalize(Habit& habit, const BackendContentRef& of, uint64_t name, int depth) {
  client::LibraryObject* slot = IsCurrent(habit.steps) ? NewBackendSlot() : nullptr;
  if (slot == nullptr) return;
  auto made = std::make_shared<BackendContent>();
  made->type = habit.type;
  made->habits = &TheBackendContents().habits[habit.type];
  made->steps = habit.steps;
  for (BackendStep& step : made->steps) {
    if (step.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
    step.contents.assign(static_cast<size_t>(step.count), of);
    step.ids.assign(static_cast<size_t>(step.count), name);
    step.handles.assign(static_cast<size_t>(step.count), nullptr);
  }
  Next next;
  next.habit = &habit;
  next.of = of;
  next.of_name = name;
  next.slots = {slot};
  next.made = {made};
  nexts_.push_back(std::move(next));
  AddAll(*made->habits, made, slot->id.load(), depth + 1);
}

void Nexts::Put(Call& call) const {
  call.Value(static_cast<uint32_t>(nexts_.size()));
  for (const Next& next : nexts_) {
    const Habit& habit = *next.habit;
    call.Value(uint32_t{habit.finalizes ? 1u : 0u});
    if (!habit.finalizes) {
      call.Value(next.of_name);
      call.Value(habit.attribute);
      call.Value(habit.type);
      call.Value(habit.requested);
      call.Value(static_cast<uint32_t>(habit.form));
      if (habit.form == kBackendObjects) call.Value(static_cast<uint32_t>(next.slots.size()));
      for (size_t i = 0; i < next.slots.size(); ++i) {
        if (next.slots[i] == nullptr) return call.Refuse(kLibrary.memory);
        call.Value(habit.types[i]);
        call.Value(next.slots[i]->id.load());
      }
      continue;
    }
    call.Value(next.slots[0]->id.load());
    call.Value(habit.type);
    call.Value(static_cast<uint32_t>(habit.steps.size()));
    for (const BackendStep& step : habit.steps) {
      if (step.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        PutStep(call, step);
        continue;
      }
      call.Value(step.attribute);
      call.Value(step.type);
      call.Value(step.count);
      for (int64_t i = 0; i < step.count; ++i) {
        call.Value(uint32_t{1});
        call.Value(next.of_name);
      }
    }
  }
}

void Nexts::TakeQuestion(Next& next, BackendAnswer answer) {
  const Habit& habit = *next.habit;
  std::string key =
      QuestionKey(habit.attribute, habit.type, habit.requested, habit.form, habit.types);
  for (size_t i = 0; i < next.slots.size(); ++i) {
    if (answer.status != 0 || static_cast<int64_t>(i) >= answer.count) continue;
    next.made[i]->object = next.slots[i];
    next.made[i]->by_value = next.of->by_value;
    next.made[i]->print = PrintOfMade(*next.of, key, i + 1);
    next.slots[i] = nullptr;
    answer.made.push_back(next.made[i]);
  }
  KeepAnswer(*next.of, key, answer);
  std::lock_guard lock(next.of->mutex);
  next.of->answers.emplace(std::move(key), std::move(answer));
}

void Nexts::TakeFinalize(Next& next, BackendAnswer answer) {
  BackendContentRef made = next.made[0];
  made->status = answer.status;
  made->text = std::move(answer.text);
  if (made->status == 0) {
    made->object = next.slots[0];
    next.slots[0] = nullptr;
    NoteByValue(made.get());
    made->print = PrintOf(made->type, made->steps);
    Keep(Kept::kFinalized, made->print, "");
  }
  BackendContents& contents = TheBackendContents();
  std::lock_guard lock(contents.mutex);
  contents.by_key.emplace(KeyOf(made->type, made->steps), std::move(made));
}

void Nexts::Take(const std::string& answers) {
  Reader in(std::as_bytes(std::span(answers)));
  const auto count = in.Get<uint32_t>();
  for (size_t i = 0; i < nexts_.size() && i < count; ++i) {
    BackendAnswer answer;
    answer.status = in.Get<int32_t>();
    const bool asked = in.Get<uint32_t>() != 0;
    answer.count = in.Get<int64_t>();
    answer.bytes = in.GetString();
    answer.text = in.GetString();
    if (!in.ok()) return;
    if (!asked || !IsVerdict(answer.status)) continue;
    if (nexts_[i].habit->finalizes)
      TakeFinalize(nexts_[i], std::move(answer));
    else
      TakeQuestion(nexts_[i], std::move(answer));
  }
}

}  // namespace farcall::thin
