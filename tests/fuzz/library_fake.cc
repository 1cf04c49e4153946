// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/library_fake.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace farcall::fuzz {

namespace {

struct State {
  uint16_t kind = 0;
  int mode = 0;
  bool ended = false;
  std::thread::id user;
  int uses = 0;
};

constexpr uint64_t kMaxFilled = 64u << 10;

Ground g_ground;
std::mutex g_mutex;
std::map<uint64_t, State> g_objects;
std::map<uint64_t, uint64_t> g_ranges;
std::set<const void*> g_functions;
std::atomic<uint64_t> g_calls{0};
uint64_t g_last_object = 0x100;
std::atomic<uint64_t> g_random{1};
std::atomic<bool> g_refuses{false};

uint64_t Random() {
  uint64_t now = g_random.fetch_add(0x9e3779b97f4a7c15u);
  now ^= now >> 29;
  return now * 0xbf58476d1ce4e5b9u >> 17;
}

bool Contains(uint64_t base, uint64_t bytes, uint64_t at, uint64_t length) {
  return at >= base && at - base <= bytes && length <= bytes - (at - base);
}
bool Overlaps(uint64_t base, uint64_t bytes, uint64_t at) {
  return at >= base && at - base < bytes;
}

bool InRange(uint64_t at, uint64_t bytes) {
  std::lock_guard lock(g_mutex);
  auto above = g_ranges.upper_bound(at);
  return above != g_ranges.begin() &&
         Contains(std::prev(above)->first, std::prev(above)->second, at, bytes);
}

bool IsDevices(uint64_t at, uint64_t bytes) {
  return Contains(g_ground.window_base, g_ground.window_bytes, at, bytes) || InRange(at, bytes);
}

}  // namespace

void SetGround(const Ground& ground) {
  g_ground = ground;
}

void NoteRange(uint64_t base, uint64_t bytes) {
  std::lock_guard lock(g_mutex);
  g_ranges[base] = bytes;
}

void ForgetRange(uint64_t base) {
  std::lock_guard lock(g_mutex);
  g_ranges.erase(base);
}

void ResetFakes(uint64_t seed) {
  std::lock_guard lock(g_mutex);
  g_objects.clear();
  g_last_object = 0x100;
  g_random = seed;
  g_refuses = seed != 0;
}

uint64_t GivenAddress() {
  return reinterpret_cast<uint64_t>(&g_ground);
}

uint64_t FakeCalls() {
  return g_calls.load();
}

size_t FakeFunctionsCalled() {
  std::lock_guard lock(g_mutex);
  return g_functions.size();
}

Fake::Fake(const char* function, bool is_slow)
    : function_(function),
      is_slow_(is_slow),
      status_(g_refuses.load() && Random() % 8 == 0 ? 1 + static_cast<int>(Random() % 16) : 0) {
  ++g_calls;
  {
    std::lock_guard lock(g_mutex);
    g_functions.insert(function);
  }
}

Fake::~Fake() {
  if (is_slow_)  // in its objects meanwhile
    std::this_thread::sleep_for(std::chrono::microseconds(50 + Random() % 256));
  std::lock_guard lock(g_mutex);
  for (uint64_t key : used_) --g_objects[key].uses;
  for (uint64_t key : ended_) g_objects[key].ended = true;
}

void Fake::Fail(const char* what, uint64_t value) {
  std::fprintf(stderr, "%s is given %s: %#llx\n", function_, what,
               static_cast<unsigned long long>(value));
  std::abort();
}

void Fake::Use(uint64_t key, std::initializer_list<uint16_t> kinds, bool may_be_null, bool ends) {
  std::unique_lock lock(g_mutex);
  if (key == 0 && may_be_null) return;
  auto found = g_objects.find(key);
  if (found == g_objects.end()) {
    lock.unlock();
    Fail("no object", key);
  }
  State& state = found->second;
  const bool fits = std::find(kinds.begin(), kinds.end(), state.kind) != kinds.end();
  const bool shared = state.uses != 0 && state.user != std::this_thread::get_id();
  if (state.ended || shared || !fits) {
    lock.unlock();
    Fail(state.ended ? "an object that has ended"
         : shared    ? "an object that another thread is in"
                     : "an object of another kind",
         key);
  }
  state.user = std::this_thread::get_id();
  ++state.uses;
  used_.push_back(key);
  if (ends) ended_.push_back(key);
  handle_ = handle_ == 0 ? key : handle_;
}

uint64_t Fake::NewObject(uint16_t kind) {
  std::lock_guard lock(g_mutex);
  const uint64_t key = g_last_object += 0x10;
  g_objects[key].kind = kind;
  return key;
}

void Fake::CheckDevice(uint64_t address, uint64_t bytes) {
  if (address != 0 && !IsDevices(address, std::max<uint64_t>(bytes, 1)))
    Fail("an address outside the session's memory", address);
}

void Fake::ByMode(const void* at, uint64_t bytes, bool writes) {
  int mode = 0;
  {
    std::lock_guard lock(g_mutex);
    auto found = g_objects.find(handle_);
    mode = found == g_objects.end() ? 0 : found->second.mode;
  }
  if (mode != 0) return CheckDevice(reinterpret_cast<uint64_t>(at), bytes);
  Touch(at, bytes, writes);
}

void Fake::Any(const void* at, uint64_t bytes) {
  if (!IsDevices(reinterpret_cast<uint64_t>(at), 1)) Touch(at, bytes, true);
}

void Fake::Touch(const void* at, uint64_t bytes, bool writes) {
  const auto address = reinterpret_cast<uint64_t>(at);
  if (at == nullptr || bytes == 0) return;
  if (Overlaps(g_ground.secret, g_ground.secret_bytes, address) ||
      Overlaps(g_ground.window_base, g_ground.window_bytes, address))
    Fail("a pointer for the host to follow", address);
  auto* first = static_cast<volatile unsigned char*>(const_cast<void*>(at));
  if (!writes) {
    (void)first[0];
    (void)first[bytes - 1];
    return;
  }
  constexpr unsigned char kFills[] = {0, 0, 1, 2, 8, 0x7f, 0xff, 0x80};
  std::memset(const_cast<void*>(at), kFills[Random() % 8], std::min(bytes, kMaxFilled));
  if (bytes > sizeof(uint32_t) && Random() % 2 == 0) {  // a small number of any width
    std::memset(const_cast<void*>(at), 0, std::min(bytes, kMaxFilled));
    first[0] = static_cast<unsigned char>(Random() % 40);
  }
  first[bytes - 1] = first[bytes - 1];
}

void Fake::Text(const char* text) {
  if (text != nullptr) Touch(text, std::strlen(text) + 1, false);
}

void Fake::WriteAddress(void* at) {
  if (at == nullptr) return;
  Touch(at, sizeof(uint64_t), true);
  const uint64_t told = Random() % 2 == 0 ? GivenAddress() : g_ground.window_base + 256;
  std::memcpy(at, &told, sizeof(told));
}

void Fake::SetModeOf(int mode) {
  std::lock_guard lock(g_mutex);
  g_objects[handle_].mode = mode;
}

}  // namespace farcall::fuzz
