// SPDX-License-Identifier: Apache-2.0
// One library call on its way: arguments in order, then Run(). What can be checked here is refused
// here; what has outputs waits, all else is posted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "client-shim/thin/handle.h"
#include "client-shim/thin/library.h"
#include "client-shim/thin/numbers.h"
#include "proto/codec.h"

namespace farcall::thin {

struct Content;
struct Described;

class Call {
 public:
  template <typename Function>
  explicit Call(Function function) : Call(static_cast<uint16_t>(function)) {}
  explicit Call(uint16_t function);
  Call(const Call&) = delete;
  ~Call();

  // ---- arguments
  // A live object of one of these kinds. The first with a State is the call's handle: its stream,
  // its pointer mode; what was set on it and not yet sent goes ahead.
  void Object(const void* handle, std::initializer_list<uint16_t> kinds, bool optional = false);
  // What Object() says of a handle that is none; the library's usual code if nobody sets it.
  void NoHandle(int status) { no_handle_ = status; }
  // The same by its number.
  void Object(int number, std::initializer_list<uint16_t> kinds, bool optional = false) {
    Object(ObjectOfNumber(number), kinds, optional);
  }
  // The object that the call makes; *handle is set when it is sent.
  template <typename T>
  void New(T* handle, uint16_t kind, State* state = nullptr) {
    static_assert(std::is_pointer_v<T>);
    AddNew((void**)handle, kind, state);  // it may point to const
  }
  // What the call ends: it is gone here once that is sent, whatever the server says.
  void End(const void* handle) {
    if (refused_ == 0) ends_ = Channel().find_object(handle);
    Idle();
  }
  // The descriptor that the call changes (content.h).
  void Target(const void* handle, uint16_t kind);
  // After what tells one use of the function from another: Try() waits for the first of each.
  void EndOfLike() { like_bytes_ = used_bytes_; }
  void Stream(void* stream) {
    stream_ = stream;
    has_stream_ = true;
  }
  template <typename T>
  void Value(T value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      std::byte* at = Room(sizeof(T), sizeof(T));
      std::memcpy(at, &value, sizeof(T));
    } else {
      PutRun(&value, sizeof(T));
    }
  }
  // It puts no work on its handle's stream: that the program destroyed the stream is no fault.
  void Idle() { is_idle_ = true; }
  // Ahead of the arguments of a question: the handle asked and the addresses are no part of what is
  // asked.
  void Cached() { cached_ = true; }
  template <typename T>
  void Device(T pointer) {
    if (cached_ && skipped_ < kMaxSkipped) skip_[skipped_++] = AlignUp(used_bytes_, 8);
    nulls_ = nulls_ << 1 | (pointer == nullptr ? 1 : 0);
    has_addresses_ = true;
    uint64_t address = Channel().device_address(reinterpret_cast<uint64_t>(pointer));
    std::byte* at = Room(8, 8);
    std::memcpy(at, &address, 8);
  }
  // In the handle's pointer mode.
  void Scalar(const void* pointer, uint64_t bytes) {
    if (on_device_ && pointer != nullptr) return PutOnDevice(pointer);
    PutCaptured(pointer, bytes);
  }
  // Where the call itself says it is.
  void ScalarAt(const void* pointer, uint64_t bytes, bool on_device) {
    if (on_device && pointer != nullptr) return PutOnDevice(pointer);
    PutCaptured(pointer, bytes);
  }
  // A host array, captured here. A long one goes ahead in pieces, and the call waits.
  void In(const void* pointer, uint64_t bytes) { PutCaptured(pointer, bytes); }
  void String(const char* text);
  // The host's, written at the call.
  void Out(void* pointer, uint64_t bytes);
  // What may not be null if it has any bytes.
  void Need(const void* pointer, uint64_t bytes) {
    if (pointer == nullptr && bytes != 0) Refuse(kLibrary.value);
  }
  // The host's in any pointer mode, read and written.
  void Update(void* pointer, uint64_t bytes) {
    PutCaptured(pointer, bytes);
    if (pointer == nullptr) Doubt();
    AddSlot({pointer, bytes, nullptr});
  }
  void InOut(void* pointer, uint64_t bytes);
  // In the handle's pointer mode: the host's is written once the stream has got there.
  void Result(void* pointer, uint64_t bytes);
  // By hand: outputs of another form, in the reply's order.
  void OutText(std::string* text) { AddSlot({nullptr, 0, text}); }
  template <typename T>
  void OutValue(T* value) {
    AddSlot({value, sizeof(T), nullptr});
  }
  void Refuse(int status) {
    if (refused_ == 0) refused_ = status;
  }

  // An argument may be wrong: the call waits, so that it returns what the library says of it.
  void Doubt() { is_doubtful_ = true; }

  // ---- the call
  // Waits if it has outputs, else posts.
  int Run();
  int Ask();
  // The same where no value of the device's comes back: it has its place in a capture.
  int AskAnywhere() { return refused_ != 0 ? refused_ : AskServer(); }
  // As Run, but the first call of its like is asked, so that what the library refuses is told by
  // the call that it refuses.
  int Try();
  // As Run; success means that `function`, of as many pointers more and none of them null, takes
  // these objects and values: its first call is posted.
  template <typename Function>
  int Prove(Function function, int more_pointers) {
    return Prove(static_cast<uint16_t>(function), more_pointers);
  }
  // Changes the target: what that comes to is asked once for each content.
  int Set(bool fresh = false);
  // As Ask; the same question is asked once in a session.
  int Question();

 private:
  static constexpr size_t kStackBytes = 1024;
  static constexpr size_t kMaxBytes = 960u << 10;     // with its header it fits a frame
  static constexpr size_t kInlineBytes = 512u << 10;  // of captured arrays
  static constexpr int kMaxSlots = 24;
  static constexpr int kMaxSkipped = 12;
  static constexpr size_t kMaxPlaced = 16;
  struct Slot {
    void* to;
    uint64_t bytes;
    std::string* text;
    uint64_t blob = 0;  // that has it, if it is long
  };
  std::byte* Room(size_t bytes, size_t align);
  void Grow(size_t bytes);
  void PutRun(const void* data, uint64_t bytes);
  void PutCaptured(const void* pointer, uint64_t bytes);
  void PutOnDevice(const void* pointer);
  void PutInBlob(const void* pointer, uint64_t bytes);
  void PutWord(uint64_t word);
  void AddSlot(const Slot& slot);
  void AddNew(void** handle, uint16_t kind, State* state);
  int Prove(uint16_t function, int more_pointers);
  int Post();
  // What has no handle begins CUDA itself. Not 0: the server's library has no such function, or
  // there is none.
  int Begin();
  int AskServer();
  client::StreamUse stream_use() const {
    if (!has_stream_) return client::StreamUse::kNone;
    return is_idle_ ? client::StreamUse::kIfAlive : client::StreamUse::kOrdered;
  }
  void EndObject();
  int Fill(const void* reply, size_t bytes);
  // Outputs that are too long for a reply.
  int TakeBlobs();
  // What an earlier post of the handle came to, if this call's own status is 0.
  int Late(int status);
  std::string Key() const;
  // What names the call in any run, `text` being of its record from `library` on (kept.h).
  std::string Print(std::string text) const;
  void Place(const State* state);
  // From what an earlier run was told. False: nothing was kept.
  bool FillFromKept(const std::string& print);

  const uint16_t function_;
  int refused_ = 0;
  int no_handle_ = kLibrary.handle;
  State* state_ = nullptr;
  client::LibraryObject* object_ = nullptr;  // whose failures the call tells
  void* stream_ = nullptr;
  bool has_stream_ = false;
  bool is_idle_ = false;
  bool on_device_ = false;
  bool waits_ = false;
  bool is_doubtful_ = false;
  client::LibraryObject* made_ = nullptr;
  void** made_at_ = nullptr;
  client::LibraryObject* ends_ = nullptr;
  Slot slots_[kMaxSlots];
  int slot_count_ = 0;
  Described* target_ = nullptr;
  size_t target_at_ = 0;
  std::vector<const void*> last_named_;  // descriptors, by a setter
  // Where objects' ids are, and whose contents they name; a handle's names none.
  struct Placed {
    size_t at;
    const State* content;
  };
  Placed placed_[kMaxPlaced];
  size_t placed_count_ = 0;
  bool unplaced_ = false;  // an object of the server's alone, or one too many
  bool has_addresses_ = false;
  std::span<const Placed> placed_span() const { return {placed_, placed_count_}; }
  size_t like_bytes_ = 0;
  uint64_t nulls_ = 0;  // a bit for each pointer
  std::vector<uint64_t> blobs_;
  bool cached_ = false;
  size_t skip_[kMaxSkipped];
  int skipped_ = 0;
  std::byte* base_;
  size_t room_bytes_ = kStackBytes;
  size_t used_bytes_ = sizeof(LibraryHeader);
  std::unique_ptr<std::byte[]> heap_;
  alignas(16) std::byte stack_[kStackBytes];
};

// Makes an object of which nothing else is told. Returns the library's status; the object owns
// `state` if that is 0.
template <typename Function, typename T>
int MakeObject(Function function, T* handle, uint16_t kind, State* state) {
  Call call(function);
  call.New(handle, kind, state);
  int status = call.Run();
  if (status != 0) delete state;
  return status;
}

}  // namespace farcall::thin
