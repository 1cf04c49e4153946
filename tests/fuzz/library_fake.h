// SPDX-License-Identifier: Apache-2.0
// What the functions of a fake library do with their arguments: all that the real ones would, so
// that an argument the server should not have let through ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace farcall::fuzz {

// Where what the server gives may lie.
struct Ground {
  uint64_t window_base = 0, window_bytes = 0;  // the session's
  uint64_t secret = 0, secret_bytes = 0;       // the worker's: nobody is given any of it
};
void SetGround(const Ground& ground);
// Reservations (where a device meets nothing) and page-locked memory of this execution.
void NoteRange(uint64_t base, uint64_t bytes);
void ForgetRange(uint64_t base);
// The worker's address that a library writes where it tells of one.
uint64_t GivenAddress();
// Before each execution: all objects are gone; `seed` decides what the functions answer; 0: none
// refuses.
void ResetFakes(uint64_t seed);
// How many functions of the libraries were called since the start; and how many different ones.
uint64_t FakeCalls();
size_t FakeFunctionsCalled();

class Fake {
 public:
  Fake(const char* function, bool is_slow);
  Fake(const Fake&) = delete;
  ~Fake();

  template <typename T>
  void Object(T object, std::initializer_list<uint16_t> kinds, bool may_be_null) {
    Use(Key(object), kinds, may_be_null, false);
  }
  template <typename T>
  void End(T object, std::initializer_list<uint16_t> kinds) {
    Use(Key(object), kinds, false, true);
  }
  template <typename T>
  void Make(T* made, uint16_t kind) {
    if (status_ != 0) return;
    const uint64_t key = NewObject(kind);
    if constexpr (std::is_integral_v<T>)
      *made = static_cast<T>(key);
    else
      *made = reinterpret_cast<T>(key);
  }
  // For kernels.
  template <typename T>
  void Device(const T* address) {
    CheckDevice(reinterpret_cast<uint64_t>(address), 1);
  }
  template <typename T, typename Count>
  void Addresses(T* const* addresses, Count count) {
    Read(addresses, static_cast<uint64_t>(count) * sizeof(*addresses));
    for (Count i = 0; addresses != nullptr && i < count; ++i) Device(addresses[i]);
  }
  // Where the handle's pointer mode says.
  void ByMode(const void* at, uint64_t bytes, bool writes);
  // On the device, or bytes of the host's.
  void Any(const void* at, uint64_t bytes);
  void Read(const void* at, uint64_t bytes) { Touch(at, bytes, false); }
  void Write(void* at, uint64_t bytes) { Touch(at, bytes, true); }
  void Text(const char* text);
  // An address of the worker's own, which no client may learn.
  void WriteAddress(void* at);
  template <typename Mode>
  void SetMode(Mode mode) {
    SetModeOf(static_cast<int>(mode));
  }
  int Status() const { return status_; }

 private:
  template <typename T>
  static uint64_t Key(T object) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<uint64_t>(object);
    else
      return reinterpret_cast<uint64_t>(object);
  }
  void Use(uint64_t key, std::initializer_list<uint16_t> kinds, bool may_be_null, bool ends);
  uint64_t NewObject(uint16_t kind);
  void CheckDevice(uint64_t address, uint64_t bytes);
  void Touch(const void* at, uint64_t bytes, bool writes);
  void SetModeOf(int mode);
  [[noreturn]] void Fail(const char* what, uint64_t value);

  const char* const function_;
  const bool is_slow_;
  const int status_;  // a function that refuses makes nothing
  std::vector<uint64_t> used_, ended_;
  uint64_t handle_ = 0;
};

}  // namespace farcall::fuzz
