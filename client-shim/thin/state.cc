// SPDX-License-Identifier: Apache-2.0
// What an object was set to and the server has not been told yet.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "client-shim/thin/call.h"
#include "client-shim/thin/forked.h"
#include "client-shim/thin/lacking.h"

namespace farcall::thin {

int RefuseLacking(uint16_t function) {
  return Refuse(
      kLibrary.functions[function],
      ": the server's library, version " + LibraryVersionText(ServerVersion()) + ", has none");
}

client::LibraryObject* Find(const void* handle, uint16_t kind) {
  if (handle == nullptr || FindChannel() == nullptr) return nullptr;
  client::LibraryObject* object = Channel().find_object(handle);
  return object != nullptr && LibraryObjectKind(object->id.load()) == kind ? object : nullptr;
}

void State::Set(uint16_t function, const void* arguments, size_t bytes, const void* defaults) {
  if (IsForked()) return;  // a thread that is no more may have been sending them
  auto first = static_cast<const std::byte*>(arguments);
  std::lock_guard lock(mutex);
  auto found = std::find_if(settings.begin(), settings.end(),
                            [&](const Setting& setting) { return setting.function == function; });
  if (found == settings.end()) {
    auto before = static_cast<const std::byte*>(defaults);
    settings.push_back({function, {before, before + bytes}, {before, before + bytes}});
    found = settings.end() - 1;
  }
  found->wanted.assign(first, first + bytes);
  dirty.store(std::any_of(settings.begin(), settings.end(),
                          [](const Setting& setting) { return setting.wanted != setting.sent; }),
              std::memory_order_release);
}

int State::Flush(client::LibraryObject* object) {
  std::lock_guard lock(mutex);
  dirty.store(false);
  int status = 0;
  for (Setting& setting : settings) {
    if (setting.wanted == setting.sent) continue;
    if (IsLacking(setting.function)) {
      setting.sent = setting.wanted;
      status = RefuseLacking(setting.function);
      continue;
    }
    struct {
      LibraryHeader header{};
      uint64_t object = 0;
      std::byte arguments[64] = {};
    } record;
    record.header.library = static_cast<uint8_t>(kLibrary.id);
    record.header.major = static_cast<uint8_t>(kMajor);
    record.header.function = setting.function;
    record.object = object->id.load();
    std::memcpy(record.arguments, setting.wanted.data(),
                std::min<size_t>(setting.wanted.size(), 64));
    int said = 0;
    int posted =
        Channel().post(&record, offsetof(decltype(record), arguments) + setting.wanted.size(),
                       stream, client::StreamUse::kIfAlive, &said);
    setting.sent = setting.wanted;
    if (status == 0) status = posted != 0 ? StatusOf(posted) : said;
  }
  return status;
}

}  // namespace farcall::thin
