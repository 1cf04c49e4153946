// SPDX-License-Identifier: Apache-2.0
// What one library call's generated server function sees: its arguments, the objects it names, room
// for its outputs. Docs: docs/reference/thin.md.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "proto/library/library_call.h"
#include "server/state/serve.h"

namespace farcall::server {

// A handle, plan or descriptor of the real library.
struct LibraryObject {
  uint64_t wire = 0;
  void* native = nullptr;  // null: its creation failed, `status` says how
  int status = 0;
  // What the real object was last told; the record says what it must be.
  CUstream stream = nullptr;
  bool has_stream = false;
  int pointer_mode = 0;
  CUcontext context = nullptr;  // it was made in
  // What calls told of it, for later ones to be checked by.
  std::array<int64_t, 6> notes{};
  // What the real object points to, by what it is for.
  std::map<int, std::shared_ptr<const void>> kept;
};

// Of an object, as a record says it.
struct LibraryName {
  uint64_t wire = 0;
  bool ends = false;  // with this call
};

class LibraryBlobs;
class LibraryLoader;
class LibraryCall;
struct LibraryTable;

struct LibraryRow {
  const char* name = nullptr;
  void (*serve)(LibraryCall& call) = nullptr;  // null: this build has none
  bool slow = false;    // on the libraries' helper: it may take long, or wait for the device
  bool blocks = false;  // waits for its stream: served once that is idle
  bool apart = false;   // in no context, on the toolchain's helper
  // Puts work on the device: admitted by the gate, and metered, whatever its record says.
  bool works = false;
};

// One library, generated from its headers.
struct LibraryTable {
  LibraryId id = LibraryId::kNone;
  const char* name = "";  // "cublas": libcublas.so.<major>
  const LibraryRow* rows = nullptr;
  uint16_t count = 0;
  std::span<const int> majors;         // of its SONAME, newest first
  std::span<const char* const> needs;  // "cublasLt": loaded before it, from the same place
  int internal_error = 0;              // its code for what is no fault of the caller's
  int invalid_object = 0;
  int invalid_value = 0;
  int out_of_memory = 0;
  int unsupported = 0;
  int64_t (*version)(void* library) = nullptr;
};
// Null: not in this build.
const LibraryTable* FindLibraryTable(LibraryId id);

class LibraryCall {
 public:
  LibraryCall(ServeCall& call, LibraryLoader& loader, const LibraryTable& table,
              const LibraryHeader& header, CUstream stream)
      : call_(call), loader_(loader), table_(table), header_(header), stream_(stream) {}
  LibraryCall(const LibraryCall&) = delete;
  ~LibraryCall();

  // ---- arguments, in order
  template <typename T>
  T Value() {
    if constexpr (std::is_enum_v<T> || std::is_arithmetic_v<T>) {
      return call_.in.Get<std::remove_const_t<T>>();
    } else {  // a record by value
      T value{};
      std::span<const std::byte> bytes = call_.in.GetBytes();
      if (bytes.size() != sizeof(T))
        call_.Reject("a value of another size");
      else
        std::memcpy(&value, bytes.data(), sizeof(T));
      return value;
    }
  }
  // A live object of one of these kinds (LibraryKind). 0 is null if `optional`.
  template <typename T>
  T Object(std::initializer_list<uint16_t> kinds, bool optional = false) {
    return FromNative<T>(FindObject(kinds, optional));
  }
  // The same, which the call ends.
  template <typename T>
  T EndingObject(std::initializer_list<uint16_t> kinds) {
    ends_next_ = true;
    return Object<T>(kinds);
  }
  // Some libraries name their objects by numbers: kept as pointers, none of them null.
  template <typename T>
  static T FromNative(void* native) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(reinterpret_cast<intptr_t>(native) - 1);
    else
      return static_cast<T>(native);
  }
  // A device address: the library's kernels use it. In the place of one outside the session's
  // memory they get one where nothing is, and meet an illegal address as they would have at home.
  template <typename T>
  T Address() {
    return reinterpret_cast<T>(CheckAddress(call_.in.Get<uint64_t>(), 1));
  }
  // The host's at the call, captured. Nothing but bytes of the record or of a blob: no address.
  template <typename T>
  T In(uint64_t bytes) {
    return static_cast<T>(const_cast<void*>(GetHost(bytes)));
  }
  // The same for a scalar whose size only the client knows: as many bytes as it sent.
  template <typename T>
  T HostScalar() {
    return static_cast<T>(const_cast<void*>(GetHost(std::nullopt)));
  }
  // A host array of device addresses, each checked as Address does.
  template <typename T>
  T Addresses(uint64_t count) {
    return static_cast<T>(const_cast<void*>(GetAddresses(count)));
  }
  // Where the pointer mode says: the host's, captured, or a device address.
  template <typename T>
  T Scalar(uint64_t bytes) {
    return static_cast<T>(const_cast<void*>(GetScalar(bytes, header_.pointer_mode != 0)));
  }
  // The same beside a result: the function is told device pointer mode, so that the host's goes
  // where kernels can read it.
  template <typename T>
  T ScalarBesideResult(uint64_t bytes) {
    return static_cast<T>(GetScalarForKernels(bytes));
  }
  // The first or second scalar of a size that only the client knows.
  template <typename T>
  T AnyScalar(size_t which) {
    return static_cast<T>(const_cast<void*>(GetScalar(std::nullopt, AnyScalarOnDevice(which))));
  }
  // By hand: a device address or, of a tensor that is passed by value, the host's scalar.
  template <typename T>
  T AddressOrScalar() {
    return static_cast<T>(const_cast<void*>(GetAddressOrScalar()));
  }
  // By hand: for an address that came among other bytes, what the library is told: another one, at
  // which a device meets nothing, if the session may not have it. `bytes`: as many as the library
  // may touch itself.
  uint64_t CheckAddress(uint64_t address, uint64_t bytes);
  // By hand: a descriptor says where its call's scalars are, not the handle.
  void SetScalarsOnDevice(bool first, bool second) { described_modes_ = {first, second}; }
  template <typename T>
  T String() {
    return static_cast<T>(GetString());
  }
  // Room for `bytes` that the function writes at the call; null if the client has none.
  template <typename T>
  T Out(uint64_t bytes) {
    return static_cast<T>(MakeOut(bytes, nullptr));
  }
  // The same where the function writes an address on the device: it is told if the session may
  // have it.
  template <typename T>
  T OutAddress(uint64_t bytes) {
    return static_cast<T>(MakeOutWord(bytes, &out_addresses_));
  }
  // The same where the function writes an object of its own: whether there is one is told.
  template <typename T>
  T OutObject(uint64_t bytes) {
    return static_cast<T>(MakeOutWord(bytes, &out_objects_));
  }
  // The host's in host pointer mode, read and written; else a device address.
  template <typename T>
  T InOut(uint64_t bytes) {
    return static_cast<T>(MakeInOut(bytes));
  }
  // The host's, read and written, whatever the pointer mode.
  template <typename T>
  T Update(uint64_t bytes) {
    const void* before = GetHost(bytes);
    return static_cast<T>(before == nullptr ? NoOut() : MakeOut(bytes, before));
  }
  // Room on the host if the call's object is of this kind, else a device address.
  template <typename T>
  T Target(uint64_t bytes, uint16_t host_kind) {
    return LibraryObjectKind(first_object_) == host_kind ? Out<T>(bytes) : Address<T>();
  }
  // Room that lives as long as the call.
  template <typename T>
  T* Scratch() {
    return reinterpret_cast<T*>(Room(sizeof(T)));
  }
  // Room that the function's kernels write: the answer waits for the stream. Or a device address.
  template <typename T>
  T Result(uint64_t bytes) {
    return static_cast<T>(MakeResult(bytes));
  }
  // Room of the host's that the function works in; nothing of it comes or goes.
  template <typename T>
  T HostRoom(uint64_t bytes) {
    return static_cast<T>(MakeHostRoom(bytes));
  }
  CUstream stream() const { return stream_; }
  // The object the function makes: it has its name from the client.
  void NewObject(uint16_t kind);
  void Made(const void* native, int status, int64_t note = 0);
  void Made(int number, int result) {
    Made(reinterpret_cast<void*>(static_cast<intptr_t>(number) + 1), result);
  }
  // Several at once, by hand: the name that the client gave, and what was made.
  uint64_t TakeName(uint16_t kind);
  void Keep(uint64_t wire, const void* native, int status, int64_t note = 0);
  // By hand: an output that the client did not ask for by a flag.
  void Say(const void* data, uint64_t bytes);
  // The object `Object` found last ends: no later record finds it.
  void EndObject();

  // ---- the call
  bool Ready();
  // The handle found last is told the stream and pointer mode of this record if it does not know.
  bool HasNewStream();
  bool HasNewMode();
  // What the handle is to be told: results go to memory that kernels write, whatever the client's.
  int mode() const { return header_.pointer_mode != 0 || !results_.empty() ? 1 : 0; }
  void* handle() const { return object_ == nullptr ? nullptr : object_->native; }
  // Of the object found last; null: there is none.
  LibraryObject* last_object() { return last_object_; }
  // Refuses a call that the function itself would not survive.
  void Require(bool holds, int refusal) {
    if (!holds && status == 0 && !call_.stalled && !call_.rejected()) status = refusal;
  }
  template <typename T>
  T FunctionOf(LibraryId library, const char* name) {
    return reinterpret_cast<T>(FindFunctionOf(library, name));
  }
  // Null: the library that was loaded has no such function; `status` says so.
  template <typename Function>
  Function Of(uint16_t id) {
    return reinterpret_cast<Function>(FindFunction(id));
  }
  int status = 0;  // the library's
  // Whether to go on after telling the handle something.
  bool Succeeded(int code) {
    status = code;
    return code == 0;
  }

  // ---- by hand: an output of any length, after those before it
  void PutOutput(const void* data, uint64_t bytes);
  LibraryBlobs& blobs();
  LibraryLoader& loader() { return loader_; }

  // ---- for the session
  void Finish();
  // Nothing is run, found or made: only the names are read that the record says.
  void ReadNames() {
    reads_names_ = true;
    call_.stalled = true;
  }
  const std::vector<LibraryName>& names() const { return names_; }
  bool has_results() const { return !results_.empty(); }
  uint64_t failed_object() const { return first_object_; }
  ServeCall& base() { return call_; }
  const LibraryTable& table() const { return table_; }

 private:
  struct Output {
    const std::byte* data;
    uint64_t bytes;
    bool may_be_long = false;  // too long for a reply: it goes as a blob
  };
  std::byte* Room(uint64_t bytes);
  void* FindObject(std::initializer_list<uint16_t> kinds, bool optional);
  bool MayUse(uint64_t wire);
  const void* GetHost(std::optional<uint64_t> expected_bytes);
  const void* GetHostOf(uint64_t length, std::optional<uint64_t> expected_bytes);
  const void* GetScalar(std::optional<uint64_t> bytes, bool on_device);
  void* GetScalarForKernels(uint64_t bytes);
  const void* GetOnDevice(uint64_t length, uint64_t bytes);
  const void* GetAddresses(uint64_t count);
  const void* GetBlob(uint64_t bytes);
  const void* GetAddressOrScalar();
  bool AnyScalarOnDevice(size_t which) const {
    return described_modes_.has_value() ? described_modes_->at(which) : header_.pointer_mode != 0;
  }
  std::byte* MakeResultRoom(uint64_t bytes);
  void* MakeOutWord(uint64_t bytes, std::vector<std::byte*>* words);
  void CheckOutWords();
  bool MayTake(uint64_t bytes) const;
  const char* GetString();
  void* MakeOut(uint64_t bytes, const void* before);
  void* NoOut() {
    outputs_.push_back({nullptr, 0});
    return nullptr;
  }
  void* MakeInOut(uint64_t bytes);
  void* MakeResult(uint64_t bytes);
  void* MakeHostRoom(uint64_t bytes);
  void* FindFunction(uint16_t id);
  void* FindFunctionOf(LibraryId library, const char* name);
  static void Encode(int status, const std::vector<Output>& outputs, LibraryLoader& loader,
                     int out_of_memory, Builder& out);

  ServeCall& call_;
  LibraryLoader& loader_;
  const LibraryTable& table_;
  const LibraryHeader header_;
  const CUstream stream_;
  uint64_t first_object_ = 0;  // whose next call tells of a failure
  uint64_t new_object_ = 0;
  LibraryObject* object_ = nullptr;
  LibraryObject* last_object_ = nullptr;
  uint64_t room_bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> room_;
  alignas(16) std::array<std::byte, 512> small_;
  size_t small_used_ = 0;
  std::vector<Output> outputs_;
  std::vector<std::byte*> results_;
  std::vector<std::byte*> out_addresses_, out_objects_;
  std::vector<LibraryName> names_;
  bool reads_names_ = false, ends_next_ = false;
  std::optional<std::array<bool, 2>> described_modes_;
};

}  // namespace farcall::server
