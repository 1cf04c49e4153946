// SPDX-License-Identifier: Apache-2.0
// Descriptors whose content is the client's: setters are steps, kept here. The server has one
// object for each distinct sequence of steps, made by asking the last of them; after that,
// creating, setting and destroying such a descriptor send nothing, and calls name the object of its
// content.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client-shim/thin/handle.h"

namespace farcall::thin {

struct Content;

// A setter's record, its target zero.
struct Step {
  uint16_t function;
  std::string record;
  size_t target_at;                             // of the target's id
  std::vector<std::shared_ptr<Content>> named;  // what it names besides the target
  bool fresh;                                   // it also does something: never done again
  std::vector<size_t> objects_at;               // all ids in it
  bool has_addresses;                           // of the device's
};

struct Content {
  Content() = default;
  Content(const Content&) = delete;
  ~Content();

  client::LibraryObject* object = nullptr;  // null: the server refused it
  int status = 0;
  uint16_t kind = 0;
  uint16_t create = 0;
  uint16_t destroy = 0;
  std::vector<Step> steps;
  // The library's own note, of what the steps come to; they do not change. 0: none yet.
  mutable std::atomic<uint32_t> note{0};
};

// What a program's descriptor points to; its object's id is that of its content's.
struct Described final : State {
  Described() { is_handle = false; }
  std::shared_ptr<Content> content_of() const override { return content; }
  client::LibraryObject* object = nullptr;
  std::shared_ptr<Content> content;
  std::vector<const void*> named;  // the descriptors that its last setter naming some named
};

// What names the content in any run (kept.h); "": addresses, or what a setter did, are part of it.
std::string PrintOf(const Content& content);

// Statuses of the library's.
int CreateDescribed(void** descriptor, uint16_t kind, uint16_t create, uint16_t destroy);
int DestroyDescribed(const void* descriptor, uint16_t kind);
template <typename T, typename Function>
int CreateDescribed(T** descriptor, uint16_t kind, Function create, Function destroy) {
  return CreateDescribed(reinterpret_cast<void**>(descriptor), kind, static_cast<uint16_t>(create),
                         static_cast<uint16_t>(destroy));
}
// As it was made.
int ResetDescribed(Described* described);
// Null: no live descriptor of that kind.
Described* FindDescribed(const void* descriptor, uint16_t kind);

}  // namespace farcall::thin
