// SPDX-License-Identifier: Apache-2.0
// A library call's arguments off the wire. A pointer is one of three things: bytes of the record,
// room of the call's own, or a device address that was checked; which of them, the function and its
// pointer mode say, never the record.
#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/library/library_blob.h"
#include "proto/library/library_sizes.h"
#include "server/library/library_call.h"
#include "server/library/library_loader.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {
constexpr uint64_t kMaxRoomBytes = 512u << 20;  // of one call, but for the library's workspaces
constexpr uint64_t kMaxAnyBytes = 64;
// At least: a library may touch as many dimensions as there can be, though it refuses their count.
constexpr uint64_t kLeastRoomBytes = 64;
constexpr uint64_t kMaxHostRoomBytes = 1u << 30;

bool SkipCaptured(Reader& in, uint64_t length) {
  if (length == kLibraryNull) return true;
  if (length == kLibraryInBlob) length = sizeof(uint64_t);
  if (length > in.remaining_bytes()) return false;
  for (; length >= sizeof(uint64_t); length -= sizeof(uint64_t)) in.Get<uint64_t>();
  for (; length != 0; --length) in.Get<uint8_t>();
  return true;
}
}  // namespace

std::byte* LibraryCall::Room(uint64_t bytes) {
  const size_t padded = (std::max<size_t>(bytes, kLeastRoomBytes) + 15) / 16 * 16;
  if (padded <= small_.size() - small_used_) {
    std::byte* at = small_.data() + small_used_;
    small_used_ += padded;
    std::memset(at, 0, padded);
    return at;
  }
  room_.push_back(std::make_unique<std::byte[]>(padded));
  room_bytes_ += padded;
  return room_.back().get();
}

void* LibraryCall::FindObject(std::initializer_list<uint16_t> kinds, bool optional) {
  auto wire = call_.in.Get<uint64_t>();
  const bool ends = std::exchange(ends_next_, false);
  if (wire == 0) {
    if (!optional && status == 0) status = table_.invalid_object;
    return nullptr;
  }
  if (std::find(kinds.begin(), kinds.end(), LibraryObjectKind(wire)) == kinds.end()) {
    call_.Reject("an object of another kind");
    return nullptr;
  }
  first_object_ = first_object_ == 0 ? wire : first_object_;
  if (reads_names_) {
    names_.push_back({wire, ends});
    return nullptr;
  }
  // Asked before the tables: a helper that finishes in between has then already filled them.
  bool may_come = !call_.on_helper && call_.session.libraries_busy();
  if (may_come && !MayUse(wire)) return nullptr;
  LibraryObject* found = loader_.Find(wire);
  if (found != nullptr && found->native != nullptr) {
    object_ = object_ == nullptr ? found : object_;
    last_object_ = found;
    return found->native;
  }
  if (found == nullptr && may_come)
    call_.stalled = true;
  else if (found == nullptr && !loader_.WasNamed(wire))
    call_.Reject("an object never named");
  else if (status == 0)
    status = table_.invalid_object;
  return nullptr;
}

// A slow call ahead of this one has the object.
bool LibraryCall::MayUse(uint64_t wire) {
  const LibraryLoader::Hold hold = loader_.HoldOf(wire);
  if (hold == LibraryLoader::Hold::kEnds && status == 0)
    status = table_.invalid_object;  // as when that call has ended it
  call_.stalled = call_.stalled || hold == LibraryLoader::Hold::kUsed;
  return hold == LibraryLoader::Hold::kNone;
}

// `bytes`: what is touched of it, as far as that is known.
uint64_t LibraryCall::CheckAddress(uint64_t address, uint64_t bytes) {
  if (address == 0 || call_.session.MayReach(address, bytes)) return address;
  const uint64_t guard = call_.session.GuardAddress(address);
  if (guard == 0 && status == 0 && !call_.stalled) status = table_.invalid_value;
  return guard;
}

// After the word in the place of its length. Null: none, or a lie.
const void* LibraryCall::GetOnDevice(uint64_t length, uint64_t bytes) {
  if (length == kLibraryNull) return nullptr;
  if (length != kLibraryOnDevice) {
    call_.Reject("the host's bytes in device pointer mode");
    return nullptr;
  }
  return reinterpret_cast<const void*>(CheckAddress(call_.in.Get<uint64_t>(), bytes));
}

const void* LibraryCall::GetScalar(std::optional<uint64_t> bytes, bool on_device) {
  if (!on_device) return GetHost(bytes);
  return GetOnDevice(call_.in.Get<uint64_t>(), std::max<uint64_t>(bytes.value_or(1), 1));
}

const void* LibraryCall::GetAddressOrScalar() {
  constexpr uint64_t kMaxScalarBytes = 16;  // which the library reads itself
  const auto length = call_.in.Get<uint64_t>();
  return length == kLibraryOnDevice ? GetOnDevice(length, kMaxScalarBytes)
                                    : GetHostOf(length, std::nullopt);
}

void* LibraryCall::GetScalarForKernels(uint64_t bytes) {
  const void* scalar = GetScalar(bytes, header_.pointer_mode != 0);
  if (header_.pointer_mode != 0 || scalar == nullptr) return const_cast<void*>(scalar);
  std::byte* room = MakeResultRoom(bytes);
  if (room != nullptr) std::memcpy(room, scalar, bytes);
  return room;
}

const void* LibraryCall::GetAddresses(uint64_t count) {
  const auto bytes = thin::Times(count, sizeof(uint64_t));
  auto* addresses = static_cast<std::byte*>(const_cast<void*>(GetHost(bytes)));  // in our own room
  for (uint64_t at = 0; addresses != nullptr && at < bytes; at += sizeof(uint64_t)) {
    uint64_t address = 0;
    std::memcpy(&address, addresses + at, sizeof(address));
    address = CheckAddress(address, 1);
    std::memcpy(addresses + at, &address, sizeof(address));
  }
  return addresses;
}

const void* LibraryCall::GetHost(std::optional<uint64_t> expected_bytes) {
  return GetHostOf(call_.in.Get<uint64_t>(), expected_bytes);
}

const void* LibraryCall::GetHostOf(uint64_t length, std::optional<uint64_t> expected_bytes) {
  if (length == kLibraryOnDevice) {
    call_.Reject("a device address in the place of the host's bytes");
    return nullptr;
  }
  if (call_.stalled || status != 0) {
    // Not to be run: what is expected may come from an object that is not there. What follows still
    // has to be found.
    if (!SkipCaptured(call_.in, length)) call_.Reject("a host array longer than its record");
    return nullptr;
  }
  if (length == kLibraryNull) return nullptr;
  if (length == kLibraryInBlob && expected_bytes.has_value()) return GetBlob(*expected_bytes);
  const bool any = !expected_bytes.has_value();
  const uint64_t bytes = expected_bytes.value_or(length);
  if (length != bytes || (any && length > kMaxAnyBytes) || bytes > call_.in.remaining_bytes()) {
    call_.Reject("a host array of another length");
    return nullptr;
  }
  // Of any length: the function may read more than this client says.
  std::byte* room = Room(bytes);
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
  std::shared_ptr<const std::string> blob = loader_.blobs().Find(call_.in.Get<uint64_t>());
  if (blob == nullptr) {  // dropped as too large
    status = table_.out_of_memory;
    return nullptr;
  }
  if (blob->size() != bytes || !MayTake(bytes)) {
    call_.Reject("a host array of another length");
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
  if (length == kLibraryNull) return nullptr;
  if (length > call_.in.remaining_bytes()) {
    call_.Reject("a string longer than its record");
    return nullptr;
  }
  auto* text = reinterpret_cast<char*>(Room(length + 1));
  for (uint64_t i = 0; i < length; ++i) text[i] = static_cast<char>(call_.in.Get<uint8_t>());
  text[length] = 0;
  return text;
}

void* LibraryCall::MakeOut(uint64_t bytes, const void* before) {
  if (before == nullptr && call_.in.Get<uint8_t>() == 0) {
    outputs_.push_back({nullptr, 0});
    return nullptr;
  }
  if (!call_.stalled && status == 0 && !MayTake(bytes)) status = table_.out_of_memory;
  if (call_.stalled || status != 0) return NoOut();  // as GetCaptured
  std::byte* room = Room(bytes);
  if (before != nullptr && bytes != 0) std::memcpy(room, before, bytes);
  outputs_.push_back({room, bytes, true});
  return room;
}

void* LibraryCall::MakeInOut(uint64_t bytes) {
  const auto length = call_.in.Get<uint64_t>();
  if (header_.pointer_mode != 0 && length != kLibraryNull)
    return const_cast<void*>(GetOnDevice(length, bytes));
  const void* before = GetHostOf(length, bytes);
  return before == nullptr ? NoOut() : MakeOut(bytes, before);
}

void* LibraryCall::MakeOutWord(uint64_t bytes, std::vector<std::byte*>* words) {
  void* made = MakeOut(bytes, nullptr);
  if (made != nullptr && bytes == sizeof(uint64_t))
    words->push_back(static_cast<std::byte*>(made));
  else if (made != nullptr)
    call_.Reject("an address of another size");
  return made;
}

void* LibraryCall::MakeResult(uint64_t bytes) {
  const auto how = call_.in.Get<uint64_t>();
  if (header_.pointer_mode != 0) return const_cast<void*>(GetOnDevice(how, bytes));
  if (how == kLibraryNull) return nullptr;
  if (how != bytes || call_.context == nullptr) {
    call_.Reject("a result of another length");
    return nullptr;
  }
  std::byte* result = MakeResultRoom(bytes);
  if (result != nullptr) outputs_.push_back({result, bytes});
  return result;
}

// Page-locked, so that kernels reach it.
std::byte* LibraryCall::MakeResultRoom(uint64_t bytes) {
  if (bytes > LibraryLoader::kResultBytes || call_.context == nullptr) {
    call_.Reject("a result of another length");
    return nullptr;
  }
  if (call_.stalled) return nullptr;
  std::byte* result = loader_.TakeResult(call_.context->native);
  if (result == nullptr) {
    status = status == 0 ? table_.out_of_memory : status;
    return nullptr;
  }
  std::memset(result, 0, bytes);
  results_.push_back(result);
  return result;
}

void* LibraryCall::MakeHostRoom(uint64_t bytes) {
  if (call_.stalled || status != 0) return nullptr;
  if (bytes > kMaxHostRoomBytes) {
    status = status == 0 ? table_.out_of_memory : status;
    return nullptr;
  }
  return bytes == 0 ? nullptr : Room(bytes);
}

uint64_t LibraryCall::TakeName(uint16_t kind) {
  auto wire = call_.in.Get<uint64_t>();
  const bool is_name = LibraryObjectKind(wire) == kind && LibraryObjectSerial(wire) != 0;
  if (is_name && reads_names_) {
    names_.push_back({wire, false});
    return wire;
  }
  if (is_name && !call_.on_helper && call_.session.libraries_busy() &&
      loader_.HoldOf(wire) != LibraryLoader::Hold::kNone) {
    call_.stalled = true;
    return wire;
  }
  if (!is_name || loader_.Find(wire) != nullptr) {
    call_.Reject("a new object of another kind, or one of that name");
    return 0;
  }
  loader_.NoteNamed(wire);
  return wire;
}

void LibraryCall::NewObject(uint16_t kind) {
  uint64_t wire = TakeName(kind);
  if (wire == 0) return;
  new_object_ = wire;
  first_object_ = first_object_ == 0 ? wire : first_object_;
}

void LibraryCall::Made(const void* native, int made, int64_t note) {
  status = made;
  Keep(new_object_, native, made, note);
}

void LibraryCall::Say(const void* data, uint64_t bytes) {
  std::byte* room = Room(bytes);
  if (bytes != 0) std::memcpy(room, data, bytes);
  outputs_.push_back({room, bytes});
}

void LibraryCall::Keep(uint64_t wire, const void* native, int made, int64_t note) {
  LibraryObject object;
  object.notes[0] = note;
  object.wire = wire;
  object.native = made == 0 ? const_cast<void*>(native) : nullptr;
  object.status = made;
  object.context = call_.context == nullptr ? nullptr : call_.context->native;
  if (!loader_.Add(object) && status == 0) status = table_.out_of_memory;
}

void LibraryCall::EndObject() {
  if (object_ != nullptr) {
    loader_.Erase(object_->wire);
    object_ = nullptr;
  }
}

}  // namespace farcall::server
