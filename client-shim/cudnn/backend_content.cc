// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>

#include "client-shim/cudnn/backend.h"
#include "client-shim/thin/forked.h"
#include "client-shim/thin/kept.h"
#include "client-shim/thin/unused.h"
#include "proto/library/cudnn_sizes.h"

namespace farcall::thin {

namespace {

using cudnn::Function;
using cudnn::kKind_cudnnBackendDescriptor_t;

constexpr size_t kMaxProbes = 1u << 14;

using Contents = BackendContents;

Contents& TheContents() {
  return TheBackendContents();
}

template <typename T>
void Append(std::string* key, const T& value) {
  key->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Shape(const BackendStep& step) {
  std::string key;
  Append(&key, step.attribute);
  Append(&key, step.type);
  Append(&key, step.count);
  key.push_back(step.is_null ? 1 : 0);
  return key;
}

std::string KeyOf(const BackendStep& step) {
  std::string key = Shape(step);
  key += step.bytes;
  for (uint64_t id : step.ids) Append(&key, id);
  return key;
}

// What a program sets freely; the rest are enumerations and flags, few of each.
bool IsFree(int type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_INT32:
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_FRACTION:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return true;
    default:
      return false;
  }
}

int64_t FirstInt(const std::vector<BackendStep>& steps, int attribute, int64_t otherwise) {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (step->attribute != attribute || step->bytes.empty()) continue;
    int64_t value = 0;
    std::memcpy(&value, step->bytes.data(), std::min(sizeof(value), step->bytes.size()));
    return value;
  }
  return otherwise;
}

thread_local std::string t_last_error;

}  // namespace

BackendContents& TheBackendContents() {
  static auto* contents = new BackendContents;
  return *contents;
}

std::string KeyOf(int32_t type, const std::vector<BackendStep>& steps) {
  std::string key;
  Append(&key, type);
  for (const BackendStep& step : steps) {
    std::string one = KeyOf(step);
    Append(&key, one.size());
    key += one;
  }
  return key;
}

void NoteByValue(BackendContent* content) {
  for (const BackendStep& step : content->steps) {
    for (const BackendContentRef& named : step.contents)
      if (named != nullptr)
        content->by_value.insert(named->by_value.begin(), named->by_value.end());
  }
  if (content->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return;
  if (FirstInt(content->steps, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) == 0) return;
  uint64_t bytes =
      CudnnTypeBytes(static_cast<int>(FirstInt(content->steps, CUDNN_ATTR_TENSOR_DATA_TYPE, -1)));
  for (const BackendStep& step : content->steps) {
    if (step.attribute != CUDNN_ATTR_TENSOR_DIMENSIONS) continue;
    for (size_t at = 0; at + 8 <= step.bytes.size(); at += 8) {
      int64_t dimension = 0;
      std::memcpy(&dimension, step.bytes.data() + at, 8);
      bytes = Times(dimension, bytes);
    }
  }
  content->by_value[FirstInt(content->steps, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0)] = bytes;
}

bool IsVerdict(int status) {
  return status == 0 || (status >= 2000 && status < 4000);
}

std::string QuestionKey(int32_t attribute, int32_t type, int64_t requested, BackendForm form,
                        const std::vector<int32_t>& types) {
  std::string key;
  for (int64_t part : {int64_t{attribute}, int64_t{type}, requested, int64_t{form}})
    Append(&key, part);
  for (int32_t wanted : types) Append(&key, wanted);
  return key;
}

client::LibraryObject* NewBackendSlot() {
  return Channel().new_object(static_cast<uint8_t>(kLibrary.id),
                              static_cast<uint8_t>(kKind_cudnnBackendDescriptor_t), nullptr);
}

void SetLastError(const std::string& text) {
  t_last_error = text;
}
const std::string& LastError() {
  return t_last_error;
}

BackendContent::~BackendContent() {
  if (object == nullptr) return;
  Call call(Function::cudnnBackendDestroyDescriptor);
  call.Object(object, {kKind_cudnnBackendDescriptor_t});
  call.Run();
  Channel().end_object(object);
}

void PutStep(Call& call, const BackendStep& step) {
  call.Value(step.attribute);
  call.Value(step.type);
  call.Value(step.count);
  if (step.type == CUDNN_TYPE_HANDLE || step.type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (uint64_t id : step.ids) call.Value(id);
    return;
  }
  call.In(step.is_null ? nullptr : step.bytes.data(), step.bytes.size());
}

namespace {

void PutDescriptor(Call& call, uint64_t name, const BackendContent& content) {
  call.Value(name);
  call.Value(content.type);
  call.Value(static_cast<uint32_t>(content.steps.size()));
  for (const BackendStep& step : content.steps) PutStep(call, step);
}

int Settle(BackendContent* content, client::LibraryObject* slot, int status) {
  if (status == 0)
    content->object = slot;
  else
    Channel().end_object(slot);
  return status;
}

int PostFinalize(BackendContent* content) {
  client::LibraryObject* slot = NewBackendSlot();
  if (slot == nullptr) return kLibrary.memory;
  Call call(Function::cudnnBackendFinalize);
  PutDescriptor(call, slot->id.load(), *content);
  return Settle(content, slot, call.Run());
}

// An older server has no answers ahead: its refusal of the record is no verdict.
std::atomic<bool> g_answers_ahead{true};

int AskFinalize(const BackendContentRef& content) {
  client::LibraryObject* slot = NewBackendSlot();
  if (slot == nullptr) return kLibrary.memory;
  const uint64_t name = slot->id.load();
  if (g_answers_ahead.load(std::memory_order_relaxed)) {
    Nexts nexts(content, name);
    if (!nexts.empty()) {
      std::string answers;
      Call call(Function::cudnnBackendInitialize);
      PutDescriptor(call, name, *content);
      nexts.Put(call);
      call.OutText(&content->text);
      call.OutText(&answers);
      int status = call.Ask();
      if (status != kLibrary.unsupported || !answers.empty()) {
        status = Settle(content.get(), slot, status);
        if (status == 0) NoteByValue(content.get());
        nexts.Take(answers);
        return status;
      }
      g_answers_ahead.store(false, std::memory_order_relaxed);
    }
  }
  Call call(Function::cudnnBackendFinalize);
  PutDescriptor(call, name, *content);
  call.OutText(&content->text);
  return Settle(content.get(), slot, call.Ask());
}

}  // namespace

int FinalizeContent(int32_t type, const std::vector<BackendStep>& steps, BackendContentRef* out) {
  if (IsForked()) return kLibrary.missing;
  Contents& contents = TheContents();
  std::string key = KeyOf(type, steps);
  {
    std::lock_guard lock(contents.mutex);
    auto found = contents.by_key.find(key);
    if (found != contents.by_key.end()) {
      *out = found->second;
      SetLastError((*out)->text);
      return (*out)->status;
    }
  }
  auto content = std::make_shared<BackendContent>();
  content->type = type;
  content->steps = steps;
  const std::string kind = PlainKind(type, steps);
  bool plain = false;
  {
    std::lock_guard lock(contents.mutex);
    content->habits = &contents.habits[type];
    plain = !kind.empty() && contents.plain.contains(kind);
  }
  content->print = PrintOf(type, steps);
  const bool is_kept = !plain && IsKept(Kept::kFinalized, content->print);
  content->status = plain || is_kept ? PostFinalize(content.get()) : AskFinalize(content);
  if (content->status == 0 && !is_kept) Keep(Kept::kFinalized, content->print, "");
  if (content->status == 0) NoteByValue(content.get());
  SetLastError(content->text);
  *out = content;
  if (!IsVerdict(content->status)) return content->status;
  std::vector<BackendContentRef> gone;  // ends outside the lock
  std::lock_guard lock(contents.mutex);
  DropUnused(&contents.by_key, &gone);
  if (content->status == 0 && !kind.empty()) contents.plain.insert(kind);
  if (!plain) NoteFinalize(type, steps);
  *out = contents.by_key.emplace(std::move(key), std::move(content)).first->second;
  return (*out)->status;
}

int ProbeStep(int32_t type, const BackendStep& step) {
  if (IsForked()) return kLibrary.missing;
  Contents& contents = TheContents();
  std::string kind(reinterpret_cast<const char*>(&type), sizeof(type));
  std::string shape = kind + (IsFree(step.type) ? Shape(step) : KeyOf(step));
  std::string whole = kind + KeyOf(step) + "=";
  {
    std::lock_guard lock(contents.mutex);
    for (const std::string& key : {shape, whole}) {
      auto found = contents.probes.find(key);
      if (found != contents.probes.end()) return found->second;
    }
  }
  const std::string& print = IsFree(step.type) ? shape : whole;
  if (IsKept(Kept::kProbe, print)) {
    std::lock_guard lock(contents.mutex);
    contents.probes.emplace(shape, 0);
    return 0;
  }
  std::string text;
  Call call(Function::cudnnBackendSetAttribute);
  call.Value(type);
  PutStep(call, step);
  call.OutText(&text);
  int status = call.Ask();
  SetLastError(text);
  if (status == 0) Keep(Kept::kProbe, print, "");
  std::lock_guard lock(contents.mutex);
  // A refusal may be of these values; the next ones are asked again.
  if (IsVerdict(status) && contents.probes.size() < kMaxProbes)
    contents.probes.emplace(status == 0 ? shape : whole, status);
  return status;
}

BackendAnswer AskContent(const BackendContentRef& content, int32_t attribute, int32_t type,
                         int64_t requested, BackendForm form, const std::vector<int32_t>& types) {
  if (IsForked()) return {kLibrary.missing, 0, {}, {}, {}};
  std::string key = QuestionKey(attribute, type, requested, form, types);
  {
    std::lock_guard lock(content->mutex);
    auto found = content->answers.find(key);
    if (found != content->answers.end()) return found->second;
  }
  BackendAnswer answer;
  size_t made_count = 0;
  const bool is_kept = FindKeptAnswer(*content, key, &answer, &made_count) &&
                       made_count <= types.size() && (made_count == 0) == types.empty();
  if (!is_kept) answer = {};
  std::vector<client::LibraryObject*> slots;
  for (size_t i = 0; form == kBackendObjects && i < types.size(); ++i) {
    client::LibraryObject* slot = NewBackendSlot();
    if (slot == nullptr) {
      for (client::LibraryObject* taken : slots) Channel().end_object(taken);
      return {kLibrary.memory, 0, {}, {}, {}};
    }
    slots.push_back(slot);
  }
  if (!is_kept || !slots.empty()) {
    Call call(Function::cudnnBackendGetAttribute);
    call.Object(content->object, {kKind_cudnnBackendDescriptor_t});
    call.Value(attribute);
    call.Value(type);
    call.Value(requested);
    call.Value(static_cast<uint32_t>(form));
    if (form == kBackendObjects) call.Value(static_cast<uint32_t>(types.size()));
    for (size_t i = 0; i < slots.size(); ++i) {
      call.Value(types[i]);
      call.Value(slots[i]->id.load());
    }
    std::string count;
    if (is_kept) {  // the descriptors have to be filled; how many is known
      answer.status = call.Run();
    } else {
      call.OutText(&count);
      call.OutText(&answer.bytes);
      call.OutText(&answer.text);
      answer.status = call.Ask();
      std::memcpy(&answer.count, count.data(), std::min(count.size(), sizeof(answer.count)));
    }
  }
  Habit* habit = nullptr;
  if (IsVerdict(answer.status)) {
    std::lock_guard lock(TheContents().mutex);
    habit = NoteQuestion(content->habits, {attribute, type, requested, form, types, {}, false, {}});
    for (size_t i = 0; habit != nullptr && i < slots.size(); ++i) habit->of_made[i];
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (answer.status != 0 || static_cast<int64_t>(i) >= answer.count) {
      Channel().end_object(slots[i]);
      continue;
    }
    auto made = std::make_shared<BackendContent>();
    made->object = slots[i];
    made->type = types[i];
    made->by_value = content->by_value;
    made->print = PrintOfMade(*content, key, i + 1);
    if (habit != nullptr) made->habits = &habit->of_made.find(i)->second;
    answer.made.push_back(std::move(made));
  }
  if (!IsVerdict(answer.status)) return answer;
  if (!is_kept) KeepAnswer(*content, key, answer);
  std::lock_guard lock(content->mutex);
  return content->answers.emplace(std::move(key), std::move(answer)).first->second;
}

}  // namespace farcall::thin
