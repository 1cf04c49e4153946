// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_call.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "proto/library_blob.h"
#include "proto/library_sizes.h"
#include "server/calls/context.h"
#include "server/library/library_desk.h"
#include "server/session/session.h"

namespace farcall::server {

namespace {
constexpr uint64_t kMaxRoomBytes = 512u << 20;  // of one call, but for the library's workspaces
constexpr uint64_t kMaxAnyBytes = 64;
constexpr uint64_t kMostScalarBytes = 32;
constexpr uint64_t kMaxHostRoomBytes = 1u << 30;

bool SkipCaptured(Reader& in, uint64_t length) {
  if (length == kLibraryNull) {
    return true;
  }
  if (length == kLibraryOnDevice || length == kLibraryInBlob) {
    length = sizeof(uint64_t);
  }
  if (length > in.remaining_bytes()) {
    return false;
  }
  for (; length >= sizeof(uint64_t); length -= sizeof(uint64_t)) {
    in.Get<uint64_t>();
  }
  for (; length != 0; --length) {
    in.Get<uint8_t>();
  }
  return true;
}
}  // namespace

std::byte* LibraryCall::Room(uint64_t bytes) {
  size_t padded = (static_cast<size_t>(bytes) + 15) / 16 * 16;
  if (padded <= small_.size() - small_used_) {
    std::byte* at = small_.data() + small_used_;
    small_used_ += padded;
    std::memset(at, 0, padded);
    return at;
  }
  room_.push_back(std::make_unique<std::byte[]>(padded == 0 ? 16 : padded));
  room_bytes_ += padded;
  return room_.back().get();
}

void* LibraryCall::FindObject(std::initializer_list<uint16_t> kinds, bool optional) {
  auto wire = call_.in.Get<uint64_t>();
  if (wire == 0) {
    if (!optional && status == 0) {
      status = table_.invalid_object;
    }
    return nullptr;
  }
  if (std::find(kinds.begin(), kinds.end(), LibraryObjectKind(wire)) == kinds.end()) {
    call_.Lie("an object of another kind");
    return nullptr;
  }
  first_object_ = first_object_ == 0 ? wire : first_object_;
  // Asked before the table: a helper that finishes in between has then already filled it.
  bool may_come = !call_.on_helper && call_.session.libraries_busy();
  LibraryObject* found = desk_.Find(wire);
  if (found != nullptr && found->native != nullptr) {
    object_ = object_ == nullptr ? found : object_;
    last_object_ = found;
    return found->native;
  }
  if (found == nullptr && may_come) {
    call_.stalled = true;
  } else if (found == nullptr && !desk_.WasNamed(wire)) {
    call_.Lie("an object never named");
  } else if (status == 0) {
    status = table_.invalid_object;
  }
  return nullptr;
}

const void* LibraryCall::GetCaptured(std::optional<uint64_t> expected_bytes) {
  auto length = call_.in.Get<uint64_t>();
  if (call_.stalled || status != 0) {
    // Not to be run: what is expected may come from an object that is not there. What follows still
    // has to be found.
    if (!SkipCaptured(call_.in, length)) {
      call_.Lie("a host array longer than its record");
    }
    return nullptr;
  }
  if (length == kLibraryNull) {
    return nullptr;
  }
  if (length == kLibraryOnDevice) {
    return reinterpret_cast<const void*>(call_.in.Get<uint64_t>());
  }
  if (length == kLibraryInBlob && expected_bytes.has_value()) {
    return GetBlob(*expected_bytes);
  }
  const bool any = !expected_bytes.has_value();
  const uint64_t bytes = expected_bytes.value_or(length);
  if (length != bytes || (any && length > kMaxAnyBytes) || bytes > call_.in.remaining_bytes()) {
    call_.Lie("a host array of another length");
    return nullptr;
  }
  // Of any length: the function may read more than this client says.
  std::byte* room = Room(any ? std::max(bytes, kMostScalarBytes) : bytes);
  for (uint64_t done = 0; done < bytes;) {
    if (bytes - done >= 8) {
      auto word = call_.in.Get<uint64_t>();
      std::memcpy(room + done, &word, 8);
      done += 8;
    } else {
      auto byte = call_.in.Get<uint8_t>();
      std::memcpy(room + done, &byte, 1);
      ++done;
    }
  }
  return room;
}

// A copy: the function may write what its client cannot.
const void* LibraryCall::GetBlob(uint64_t bytes) {
  std::shared_ptr<const std::string> blob = desk_.blobs().Find(call_.in.Get<uint64_t>());
  if (blob == nullptr) {  // dropped as too large
    status = table_.out_of_memory;
    return nullptr;
  }
  if (blob->size() != bytes || !MayTake(bytes)) {
    call_.Lie("a host array of another length");
    return nullptr;
  }
  std::byte* room = Room(bytes);
  std::memcpy(room, blob->data(), bytes);
  return room;
}

bool LibraryCall::MayTake(uint64_t bytes) const {
  return bytes <= kMaxRoomBytes && room_bytes_ <= kMaxRoomBytes - bytes;
}

const char* LibraryCall::GetString() {
  auto length = call_.in.Get<uint64_t>();
  if (length == kLibraryNull) {
    return nullptr;
  }
  if (length > call_.in.remaining_bytes()) {
    call_.Lie("a string longer than its record");
    return nullptr;
  }
  auto* text = reinterpret_cast<char*>(Room(length + 1));
  for (uint64_t i = 0; i < length; ++i) {
    text[i] = static_cast<char>(call_.in.Get<uint8_t>());
  }
  text[length] = 0;
  return text;
}

void* LibraryCall::MakeOut(uint64_t bytes, const void* before) {
  if (before == nullptr && call_.in.Get<uint8_t>() == 0) {
    outputs_.push_back({nullptr, 0});
    return nullptr;
  }
  if (!call_.stalled && status == 0 && !MayTake(bytes)) {
    status = table_.out_of_memory;
  }
  if (call_.stalled || status != 0) {
    return NoOut();  // as GetCaptured
  }
  std::byte* room = Room(bytes);
  if (before != nullptr) {
    std::memcpy(room, before, bytes);
  }
  outputs_.push_back({room, bytes, true});
  return room;
}

void* LibraryCall::MakeInOut(uint64_t bytes) {
  const void* before = GetCaptured(bytes);
  if (before == nullptr) {
    outputs_.push_back({nullptr, 0});
    return nullptr;
  }
  return header_.pointer_mode != 0 ? const_cast<void*>(before) : MakeOut(bytes, before);
}

void* LibraryCall::MakeResult(uint64_t bytes) {
  auto how = call_.in.Get<uint64_t>();
  if (how == kLibraryNull) {
    return nullptr;
  }
  if (how == kLibraryOnDevice) {
    return reinterpret_cast<void*>(call_.in.Get<uint64_t>());
  }
  if (how != bytes || bytes > LibraryDesk::kResultBytes || call_.context == nullptr) {
    call_.Lie("a result of another length");
    return nullptr;
  }
  std::byte* result = desk_.TakeResult(call_.context->native);
  if (result == nullptr) {
    status = status == 0 ? table_.out_of_memory : status;
    return nullptr;
  }
  std::memset(result, 0, bytes);
  results_.push_back(result);
  outputs_.push_back({result, bytes});
  return result;
}

void* LibraryCall::MakeHostRoom(uint64_t bytes) {
  if (bytes > kMaxHostRoomBytes) {
    status = status == 0 ? table_.out_of_memory : status;
    return nullptr;
  }
  return bytes == 0 ? nullptr : Room(bytes);
}

uint64_t LibraryCall::TakeName(uint16_t kind) {
  auto wire = call_.in.Get<uint64_t>();
  if (LibraryObjectKind(wire) != kind || LibraryObjectSerial(wire) == 0 ||
      desk_.Find(wire) != nullptr) {
    call_.Lie("a new object of another kind, or one of that name");
    return 0;
  }
  desk_.NoteNamed(wire);
  return wire;
}

void LibraryCall::NewObject(uint16_t kind) {
  uint64_t wire = TakeName(kind);
  if (wire == 0) {
    return;
  }
  new_object_ = wire;
  first_object_ = first_object_ == 0 ? wire : first_object_;
}

void LibraryCall::Made(const void* native, int made) {
  status = made;
  Keep(new_object_, native, made);
}

void LibraryCall::Say(const void* data, uint64_t bytes) {
  std::byte* room = Room(bytes);
  std::memcpy(room, data, bytes);
  outputs_.push_back({room, bytes});
}

void LibraryCall::Keep(uint64_t wire, const void* native, int made) {
  LibraryObject object;
  object.wire = wire;
  object.native = made == 0 ? const_cast<void*>(native) : nullptr;
  object.status = made;
  object.context = call_.context == nullptr ? nullptr : call_.context->native;
  if (!desk_.Add(object) && status == 0) {
    status = table_.out_of_memory;
  }
}

void LibraryCall::EndObject() {
  if (object_ != nullptr) {
    desk_.Erase(object_->wire);
    object_ = nullptr;
  }
}

bool LibraryCall::Ready() {
  if (!call_.lie() && !call_.stalled && status == 0 && !call_.in.Done()) {
    call_.Lie("arguments of another length");
  }
  return !call_.lie() && !call_.stalled && call_.result == CUDA_SUCCESS && status == 0;
}

bool LibraryCall::HasNewStream() {
  if (object_ == nullptr || header_.stream == 0 ||
      (object_->has_stream && object_->stream == stream_)) {
    return false;
  }
  object_->has_stream = true;
  object_->stream = stream_;
  return true;
}

bool LibraryCall::HasNewMode() {
  if (object_ == nullptr || object_->pointer_mode == mode()) {
    return false;
  }
  object_->pointer_mode = mode();
  return true;
}

void LibraryCall::PutOutput(const void* data, uint64_t bytes) {
  std::byte* room = Room(bytes);
  if (bytes != 0) {
    std::memcpy(room, data, bytes);
  }
  outputs_.push_back({room, bytes});
}

LibraryBlobs& LibraryCall::blobs() {
  return desk_.blobs();
}

void* LibraryCall::FindFunction(uint16_t id) {
  void* found = desk_.Function(table_, id);
  if (found == nullptr && status == 0) {
    status = table_.unsupported;
  }
  return found;
}

void* LibraryCall::FindFunctionOf(LibraryId library, const char* name) {
  LoadedLibrary* loaded = desk_.Loaded(library);
  return loaded == nullptr ? nullptr : dlsym(loaded->handle, name);
}

void LibraryCall::Encode(int status, const std::vector<Output>& outputs, LibraryDesk& desk,
                         int out_of_memory, Builder& out) {
  std::vector<uint64_t> blobs;
  for (const Output& output : outputs) {
    const bool is_long = output.may_be_long && output.bytes > kMostOutBytes;
    uint64_t blob = 0;
    if (is_long && status == 0) {
      blob = desk.blobs().Keep({reinterpret_cast<const char*>(output.data), output.bytes});
      status = blob == 0 ? out_of_memory : 0;
    }
    blobs.push_back(blob);
  }
  out.Put<int32_t>(status);
  out.Put<uint32_t>(0);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    if (!output.may_be_long || output.bytes <= kMostOutBytes) {
      out.PutBytes(output.data, output.bytes);
    } else if (status == 0) {
      out.PutBytes(&blobs[i], sizeof(blobs[i]));
    } else {
      desk.blobs().Drop(blobs[i]);
      out.PutBytes(nullptr, 0);
    }
  }
}

void LibraryCall::Finish() {
  ServeCall& call = call_;
  if (results_.empty()) {
    return Encode(status, outputs_, desk_, table_.out_of_memory, call_.out);
  }
  CUcontext context = call.context->native;
  // Rooms are copied: the answer outlives this call.
  struct Parked {
    RecordHeader header;
    int status;
    std::vector<Output> outputs;
    std::vector<std::byte*> results;
    std::vector<std::unique_ptr<std::byte[]>> room;
    int out_of_memory;
  };
  auto parked = std::make_shared<Parked>();
  parked->header = call.header;
  parked->status = status;
  parked->outputs = std::move(outputs_);
  parked->results = std::move(results_);
  parked->room = std::move(room_);
  parked->out_of_memory = table_.out_of_memory;
  auto answer = [parked, &session = call.session, &desk = desk_, context](CUresult reached) {
    Builder out;
    Encode(parked->status, parked->outputs, desk, parked->out_of_memory, out);
    for (std::byte* result : parked->results) {
      desk.PutResult(context, result);
    }
    session.Answer(parked->header, reached, out.bytes());
  };
  call.parked = true;
  CUresult result = CUDA_SUCCESS;
  StreamState* stream = call.FindStream(header_.stream);
  if (status != 0 || stream == nullptr) {
    return answer(call.result);
  }
  if (!call.session.FenceStream(*stream, answer, &result)) {
    answer(result);
  }
}

}  // namespace farcall::server
