// SPDX-License-Identifier: Apache-2.0
// Which server a call goes to, in a process that has a session with each of several
// (FARCALL_ENDPOINT with a list). With one server nothing here is asked but one flag.
//
// The objects, device addresses and devices that a call names decide, else the calling thread's
// context. A call that names those of two servers is refused, unless cuda/state/across.h makes it
// of two.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "generated/proto/call_id.h"

namespace farcall::client {

class Session;
struct Context;

inline constexpr size_t kMaxServers = 16;

extern std::atomic<bool> g_several_servers;
inline bool HasSeveralServers() {
  return g_several_servers.load(std::memory_order_relaxed);
}

// All sessions, in the order of the list; the first is g_session.   Thread  any
std::span<Session* const> Sessions();
// Adds one; before cuInit returns, under the connection's lock.
void AddSession(Session* session);
// In a forked child.
void ForgetSessions();

// Where the calling thread's present call goes; nullptr: there is no session.
Session* RoutedSession();
// Its index among Sessions(); 0 with one server.
uint8_t CurrentServer();
// A context of `session` to put into a record of the calling thread; nullptr: it has none.
Context* ContextFor(Session* session);
// Which may serve as one for threads whose own context is another server's.
void NoteContext(Context* context);

// A call begins: it has named nothing yet.
void BeginRoute();
// The call names something of this server's.
void NoteServer(Session* session);
void NoteServerIndex(uint8_t server);
void NoteAddressSlowly(uint64_t address);
// The same, by a device address.
inline void NoteAddress(uint64_t address) {
  if (HasSeveralServers()) [[unlikely]]
    NoteAddressSlowly(address);
}
// Whose window holds a device address; nullptr: nobody's.
Session* ServerOfAddress(uint64_t address);
// NOT_SUPPORTED, said once for each call, if what the call has named is of two servers.
CUresult CheckOneServerSlowly(uint16_t call);
inline CUresult CheckOneServer(uint16_t call) {
  return HasSeveralServers() ? CheckOneServerSlowly(call) : CUDA_SUCCESS;
}

// What the calling thread does meanwhile goes to one server.
class ServerScope {
 public:
  explicit ServerScope(Session* session) {
    if (HasSeveralServers()) [[unlikely]]
      Begin(session);
  }
  ~ServerScope() {
    if (began_) [[unlikely]]
      End();
  }
  ServerScope(const ServerScope&) = delete;

 private:
  void Begin(Session* session);
  void End();
  bool began_ = false, spans_before_ = false;
  Session* before_ = nullptr;
};

// A library's handle means the same on every server; cuda/state/module.cc loads it where it is
// used. False: it could not.
using Spread = bool (*)(uint64_t handle, bool is_kernel);
extern std::atomic<Spread> g_spread;

}  // namespace farcall::client
