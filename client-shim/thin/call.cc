// SPDX-License-Identifier: Apache-2.0
#include "client-shim/thin/call.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "client-shim/thin/blobs.h"
#include "client-shim/thin/content.h"
#include "client-shim/thin/forked.h"
#include "client-shim/thin/kept.h"
#include "client-shim/thin/lacking.h"
#include "proto/codec.h"
#include "proto/library/library_blob.h"

namespace farcall::thin {

namespace {

// Answers by question: server facts that do not change in a session.
struct Answers {
  std::mutex mutex;
  std::unordered_map<std::string, std::string> by_question;
};
constexpr size_t kMaxAnswers = 1u << 16;

// So that what is looked for need not be copied.
struct HashOfText {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Calls that the library took once: function, objects, values, and which pointers were null.
class Likes {
 public:
  bool Has(std::string_view like) {
    std::lock_guard lock(mutex_);
    return likes_.contains(like);
  }
  // Those of objects that are gone are never asked for: all go when there are too many.
  void Add(std::string like) {
    constexpr size_t kMaxLikes = 1u << 14;
    std::lock_guard lock(mutex_);
    if (likes_.size() >= kMaxLikes) likes_.clear();
    likes_.insert(std::move(like));
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string, HashOfText, std::equal_to<>> likes_;
};

Likes& TheLikes() {
  static auto* likes = new Likes;
  return *likes;
}

Answers& TheAnswers() {
  static auto* answers = new Answers;
  return *answers;
}

}  // namespace

Call::Call(uint16_t function) : function_(function), base_(stack_) {
  LibraryHeader header{};
  header.library = static_cast<uint8_t>(kLibrary.id);
  header.major = static_cast<uint8_t>(kMajor);
  header.function = function;
  std::memcpy(base_, &header, sizeof(header));
  if (FindChannel() == nullptr || IsForked()) [[unlikely]]
    Refuse(kLibrary.missing);
}

Call::~Call() {
  for (uint64_t blob : blobs_) DropBlob(blob);
}

void Call::Grow(size_t bytes) {
  size_t room = std::max(room_bytes_ * 2, (used_bytes_ + bytes + 64) / 64 * 64);
  if (room > 2 * kMaxBytes) room = used_bytes_ + bytes + 64;
  auto grown = std::make_unique<std::byte[]>(room);
  std::memcpy(grown.get(), base_, used_bytes_);
  heap_ = std::move(grown);
  base_ = heap_.get();
  room_bytes_ = room;
}

std::byte* Call::Room(size_t bytes, size_t align) {
  size_t start = AlignUp(used_bytes_, align);
  if (bytes > room_bytes_ - start) [[unlikely]]
    Grow(bytes + 8);
  if (start != used_bytes_) std::memset(base_ + used_bytes_, 0, start - used_bytes_);
  used_bytes_ = start + bytes;
  return base_ + start;
}

void Call::PutWord(uint64_t word) {
  std::memcpy(Room(8, 8), &word, 8);
}

void Call::PutRun(const void* data, uint64_t bytes) {
  PutWord(bytes);
  if (bytes > kMaxBytes || used_bytes_ + bytes > kMaxBytes) return Refuse(kLibrary.unsupported);
  if (bytes != 0) std::memcpy(Room(bytes, 8), data, bytes);
}

void Call::PutCaptured(const void* pointer, uint64_t bytes) {
  nulls_ = nulls_ << 1 | (pointer == nullptr ? 1 : 0);
  if (pointer == nullptr) return PutWord(kLibraryNull);
  if (used_bytes_ + bytes > kInlineBytes || bytes > kInlineBytes) [[unlikely]]
    return PutInBlob(pointer, bytes);
  PutRun(pointer, bytes);
}

void Call::PutInBlob(const void* pointer, uint64_t bytes) {
  if (refused_ != 0) return;
  if (bytes > kMaxBlobBytes) return Refuse(kLibrary.memory);
  if (function_ >= kLibraryPut || target_ != nullptr) return Refuse(kLibrary.unsupported);
  int status = Begin();
  if (status == 0 && !Channel().server_has(SessionFeature::kLibraryArrays)) {
    status = thin::Refuse(kLibrary.functions[function_],
                          " with an array of " + std::to_string(bytes) + " bytes, " +
                              std::to_string(kInlineBytes) +
                              " at most: the server is older than this client");
  }
  if (status == 0) blobs_.push_back(SendBlob({static_cast<const char*>(pointer), bytes}, &status));
  if (status != 0) return Refuse(status);
  PutWord(kLibraryInBlob);
  PutWord(blobs_.back());
  waits_ = true;
}

void Call::PutOnDevice(const void* pointer) {
  PutWord(kLibraryOnDevice);
  Device(pointer);
}

void Call::String(const char* text) {
  PutCaptured(text, text == nullptr ? 0 : std::strlen(text));
}

void Call::Object(const void* handle, std::initializer_list<uint16_t> kinds, bool optional) {
  if (refused_ != 0) return;
  if (handle == nullptr && optional) return PutWord(0);
  client::LibraryObject* object = handle == nullptr ? nullptr : Channel().find_object(handle);
  uint64_t id = object == nullptr ? 0 : object->id.load(std::memory_order_acquire);
  if (std::find(kinds.begin(), kinds.end(), LibraryObjectKind(id)) == kinds.end() || id == 0)
    return Refuse(object_ == nullptr ? no_handle_ : kLibrary.handle);
  auto* state = static_cast<State*>(object->state);
  const bool is_handle = state != nullptr && state->is_handle;
  if (target_ != nullptr && state != nullptr && !is_handle) last_named_.push_back(handle);
  Place(state);
  if (object_ == nullptr) {
    object_ = object;
    if (cached_ && is_handle) skip_[skipped_++] = used_bytes_;
    int entered = Channel().enter();
    if (entered != 0) [[unlikely]]
      return Refuse(StatusOf(entered));
    // A handle of a sister library brings no state that this one could send.
    if (id >> 56 == static_cast<uint64_t>(kLibrary.id) && is_handle) state_ = state;
    if (state_ != nullptr) {
      stream_ = state_->stream;
      has_stream_ = !cached_;  // a question is none of the stream's
      on_device_ = state_->pointer_mode != 0;
      reinterpret_cast<LibraryHeader*>(base_)->pointer_mode = on_device_ ? 1 : 0;
      state_->BeforeCall(object);
      if (state_->dirty.load(std::memory_order_acquire)) [[unlikely]]
        Refuse(state_->Flush(object));
    }
  }
  PutWord(id);
}

void Call::Place(const State* state) {
  const bool is_content = state != nullptr && !state->is_handle;
  if (state == nullptr || placed_count_ == kMaxPlaced) {
    unplaced_ = true;
    return;
  }
  placed_[placed_count_++] = {AlignUp(used_bytes_, 8), is_content ? state : nullptr};
}

void Call::AddNew(void** handle, uint16_t kind, State* state) {
  if (handle == nullptr) return Refuse(kLibrary.value);
  if (refused_ != 0) return;
  if (object_ == nullptr) {
    int opened = Open();
    if (opened != 0) return Refuse(opened);
  }
  made_ = Channel().new_object(static_cast<uint8_t>(kind >> 8), static_cast<uint8_t>(kind), state);
  made_at_ = handle;
  if (made_ == nullptr) return Refuse(kLibrary.memory);
  PutWord(made_->id.load(std::memory_order_relaxed));
}

void Call::EndObject() {
  client::LibraryObject* object = ends_;
  auto* state = static_cast<State*>(object->state);
  object->state = nullptr;
  Channel().end_object(object);
  delete state;
}

void Call::AddSlot(const Slot& slot) {
  if (slot_count_ == kMaxSlots) return Refuse(kLibrary.internal);
  slots_[slot_count_++] = slot;
  waits_ |= slot.to != nullptr || slot.text != nullptr;
}

void Call::Out(void* pointer, uint64_t bytes) {
  Value<uint8_t>(pointer != nullptr ? 1 : 0);
  if (pointer == nullptr) Doubt();
  AddSlot({pointer, bytes, nullptr});
}

void Call::InOut(void* pointer, uint64_t bytes) {
  if (on_device_ && pointer != nullptr) return PutOnDevice(pointer);
  PutCaptured(pointer, bytes);
  AddSlot({pointer, bytes, nullptr});
}

void Call::Result(void* pointer, uint64_t bytes) {
  if (pointer == nullptr) return PutWord(kLibraryNull);
  if (on_device_) return PutOnDevice(pointer);
  PutWord(bytes);
  AddSlot({pointer, bytes, nullptr});
}

int Call::Run() {
  if (refused_ != 0) [[unlikely]]
    return refused_;
  // No value of the device's comes back from one in doubt: it has its place in a capture.
  int status = waits_ ? Ask() : is_doubtful_ ? AskServer() : Post();
  if (ends_ != nullptr) EndObject();
  return status;
}

int Call::Begin() {
  const bool has_begun = object_ != nullptr || made_ != nullptr || function_ == kLibraryOpen;
  int opened = has_begun ? 0 : Open();
  if (opened != 0 || !IsLacking(function_)) [[likely]]
    return opened;
  return RefuseLacking(function_);
}

int Call::Post() {
  int begun = Begin();
  if (begun != 0) return begun;
  if (used_bytes_ > kMaxBytes) return kLibrary.unsupported;
  int status = 0;
  int posted = Channel().post(base_, used_bytes_, stream_, stream_use(), &status);
  if (posted != 0) [[unlikely]] {
    if (made_ != nullptr) Channel().end_object(made_);
    return StatusOf(posted);
  }
  if (made_ != nullptr) *made_at_ = made_;
  return Late(status);
}

int Call::Ask() {
  if (refused_ != 0) return refused_;
  if (FindChannel() != nullptr && has_stream_ && Channel().capture_status(stream_) != 0) {
    Channel().break_capture(stream_);
    return kLibrary.failed;
  }
  return AskServer();
}

int Call::AskServer() {
  int begun = Begin();
  if (begun != 0) return begun;
  if (used_bytes_ > kMaxBytes) return kLibrary.unsupported;
  struct Taken {
    Call* call;
    int status;
  } taken = {this, kLibrary.internal};
  int asked = Channel().ask(
      base_, used_bytes_, stream_, stream_use(),
      [](void* user, const void* bytes, size_t count) {
        auto* into = static_cast<Taken*>(user);
        into->status = into->call->Fill(bytes, count);
      },
      &taken);
  if (asked != 0) {
    if (made_ != nullptr) Channel().end_object(made_);
    return StatusOf(asked);
  }
  if (made_ != nullptr && is_doubtful_ && taken.status != 0)
    Channel().end_object(std::exchange(made_, nullptr));
  if (made_ != nullptr) *made_at_ = made_;
  return Late(taken.status != 0 ? taken.status : TakeBlobs());
}

int Call::TakeBlobs() {
  for (int i = 0; i < slot_count_; ++i) {
    Slot& slot = slots_[i];
    if (slot.blob == 0) continue;
    LongAnswer answer;
    answer.head = {std::exchange(slot.blob, 0), slot.bytes};
    int status = answer.Complete();
    if (status != 0) return status;
    std::memcpy(slot.to, answer.bytes.data(), slot.bytes);
  }
  return 0;
}

int Call::Fill(const void* reply, size_t bytes) {
  Reader in(std::span(static_cast<const std::byte*>(reply), bytes));
  auto status = in.Get<int32_t>();
  in.Get<uint32_t>();
  for (int i = 0; i < slot_count_; ++i) {
    Slot& slot = slots_[i];
    std::span<const std::byte> run = in.GetBytes();
    if (slot.text != nullptr)
      slot.text->assign(reinterpret_cast<const char*>(run.data()), run.size());
    else if (run.size() == slot.bytes && slot.to != nullptr && status == 0)
      std::memcpy(slot.to, run.data(), run.size());
    else if (slot.bytes > kMaxOutBytes && run.size() == sizeof(slot.blob) && slot.to != nullptr &&
             status == 0)
      std::memcpy(&slot.blob, run.data(), sizeof(slot.blob));
    else if (slot.to != nullptr && status == 0)
      return kLibrary.internal;
  }
  return in.Done() ? status : kLibrary.internal;
}

std::string Call::Key() const {
  std::string key(reinterpret_cast<const char*>(base_) + offsetof(LibraryHeader, library),
                  used_bytes_ - offsetof(LibraryHeader, library));
  for (int i = 0; i < skipped_; ++i)
    std::memset(key.data() + skip_[i] - offsetof(LibraryHeader, library), 0, 8);
  for (int i = 0; i < slot_count_; ++i) key.push_back(slots_[i].to != nullptr ? 1 : 0);
  return key;
}

std::string Call::Print(std::string text) const {
  constexpr size_t kFrom = offsetof(LibraryHeader, library);
  if (unplaced_ || !blobs_.empty()) return "";
  std::string contents;
  for (const Placed& placed : placed_span()) {
    if (placed.at + sizeof(uint64_t) > kFrom + text.size()) break;  // after what is printed
    std::memset(text.data() + placed.at - kFrom, 0, sizeof(uint64_t));
    if (placed.content == nullptr) continue;
    const std::shared_ptr<Content> content = placed.content->content_of();
    const std::string print = content == nullptr ? "" : PrintOf(*content);
    if (print.empty()) return "";
    AppendPart(&contents, print);
  }
  return text + contents;
}

bool Call::FillFromKept(const std::string& print) {
  std::string reply;
  if (!FindKept(Kept::kAnswer, print, &reply)) return false;
  Reader in(std::as_bytes(std::span(reply)));
  bool fits = in.Get<int32_t>() == 0;
  in.Get<uint32_t>();
  for (int i = 0; i < slot_count_; ++i)
    fits = in.GetBytes().size() == (slots_[i].to == nullptr ? 0 : slots_[i].bytes) && fits;
  return fits && in.Done() && Fill(reply.data(), reply.size()) == 0;
}

int Call::Question() {
  if (refused_ != 0) return refused_;
  if (!blobs_.empty()) return Ask();  // what they hold is no part of the key
  Answers& answers = TheAnswers();
  std::string key = Key();
  {
    std::lock_guard lock(answers.mutex);
    auto found = answers.by_question.find(key);
    if (found != answers.by_question.end()) {
      const std::string& reply = found->second;
      return Late(Fill(reply.data(), reply.size()));
    }
  }
  const std::string print = Print(key);
  const bool is_kept = FillFromKept(print);
  int status = is_kept ? 0 : Ask();
  if (status != 0) return status;
  Builder reply;
  reply.Put<int32_t>(0);
  reply.Put<uint32_t>(0);
  for (int i = 0; i < slot_count_; ++i)
    reply.PutBytes(slots_[i].to, slots_[i].to == nullptr ? 0 : slots_[i].bytes);
  std::string text(reinterpret_cast<const char*>(reply.bytes().data()), reply.bytes().size());
  if (!is_kept) Keep(Kept::kAnswer, print, text);
  std::lock_guard lock(answers.mutex);
  if (answers.by_question.size() < kMaxAnswers)
    answers.by_question.emplace(std::move(key), std::move(text));
  return 0;
}

int Call::Try() {
  if (refused_ != 0) [[unlikely]]
    return refused_;
  if (waits_ || is_doubtful_ || like_bytes_ == 0) return Run();
  // In the place of the stream, which is named when the record is sent.
  reinterpret_cast<LibraryHeader*>(base_)->stream = nulls_;
  const std::string_view seen(reinterpret_cast<const char*>(base_), like_bytes_);
  if (TheLikes().Has(seen)) [[likely]]
    return Run();
  constexpr size_t kFrom = offsetof(LibraryHeader, library);
  const std::string like(seen);
  std::string print = Print(like.substr(kFrom));
  if (!print.empty()) AppendPart(&print, {reinterpret_cast<const char*>(&nulls_), sizeof(nulls_)});
  const bool is_kept = IsKept(Kept::kTried, print);
  // No value of the device's comes back: this has its place in a capture.
  int status = is_kept ? Run() : AskServer();
  if (status == 0 && !is_kept) Keep(Kept::kTried, print, "");
  if (status == 0) TheLikes().Add(like);
  return status;
}

int Call::Prove(uint16_t function, int more_pointers) {
  LibraryHeader header{};
  std::memcpy(&header, base_, sizeof(header));
  header.function = function;
  header.stream = nulls_ << more_pointers;
  std::string like(reinterpret_cast<const char*>(base_), like_bytes_);
  like.replace(0, sizeof(header), reinterpret_cast<const char*>(&header), sizeof(header));
  int status = Run();
  if (status == 0) TheLikes().Add(std::move(like));
  return status;
}

int Call::Late(int status) {
  if (object_ == nullptr) return status;
  uint64_t late = Channel().late->load(std::memory_order_acquire);
  // A descriptor without a state looks each time, once anything has failed.
  if (late == (state_ == nullptr ? 0 : state_->seen_late.load(std::memory_order_relaxed)))
      [[likely]]
    return status;
  if (state_ != nullptr) state_->seen_late.store(late, std::memory_order_relaxed);
  uint16_t function = 0;
  int failed = 0;
  if (!Channel().take_late(object_->id.load(), &function, &failed)) return status;
  return status != 0 ? status : failed;
}

}  // namespace farcall::thin
