// SPDX-License-Identifier: Apache-2.0
// What a handle carries on the client: its stream and pointer mode, which each record names, and
// settings, which go to the server when a call finds them changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "client-shim/thin/library.h"

namespace farcall::thin {

// A setter's arguments after its handle, and whether the server has them.
struct Setting {
  uint16_t function;
  std::vector<std::byte> wanted;
  std::vector<std::byte> sent;
};

struct Content;

struct State {
  virtual ~State() = default;
  // Of a descriptor whose content is the client's: it.
  virtual std::shared_ptr<Content> content_of() const { return nullptr; }
  // Settings that no list holds; a call is about to be sent.
  virtual void BeforeCall(client::LibraryObject* object) { (void)object; }

  bool is_handle = true;  // it has a stream, and its calls tell late failures
  void* stream = nullptr;
  int pointer_mode = 0;  // 1: device
  // The setter's arguments; nothing is sent before the next call.
  void Set(uint16_t function, const void* arguments, size_t bytes, const void* defaults);
  // Posts what has changed.
  int Flush(client::LibraryObject* object);

  std::atomic<bool> dirty{false};
  std::atomic<uint64_t> seen_late{0};
  std::mutex mutex;  // of settings
  std::vector<Setting> settings;
};

// A live object of this kind, else null.
client::LibraryObject* Find(const void* handle, uint16_t kind);
template <typename T>
T* StateOf(const void* handle, uint16_t kind) {
  client::LibraryObject* object = Find(handle, kind);
  return object == nullptr ? nullptr : static_cast<T*>(object->state);
}

}  // namespace farcall::thin
