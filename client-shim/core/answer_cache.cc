// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/answer_cache.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client-shim/core/connection/connect.h"
#include "client-shim/core/connection/server_scope.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/report/record_file.h"
#include "client-shim/core/session/config.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "client-shim/core/settings/settings.h"
#include "proto/handshake/handshake.h"
#include "proto/hex.h"
#include "transport/handshake.h"

namespace farcall::client {

namespace {

constexpr uint8_t kAnswer = 1;
constexpr size_t kMaxAnswerBytes = 1u << 20, kMaxFileBytes = 16u << 20;

struct File {
  std::string path;  // "": nothing is kept
  std::map<Hash256, std::string> answers;
  size_t bytes = 0;
};

struct Cache {
  std::mutex mutex;
  bool is_wanted = false;
  // By what answers depend on.
  std::map<std::string, std::unique_ptr<File>> files;
};

Hash256 HashOf(const void* data, size_t bytes) {
  return Sha256(std::span(static_cast<const std::byte*>(data), bytes));
}

bool IsWanted() {
  const Setting setting = Settings::Load(Settings::Files()).Find("library_cache");
  if (setting.value.empty() || setting.value == "1") return !GetConfig().cache_dir.empty();
  if (setting.value != "0")
    Log(LogLevel::kWarn, "%s: library_cache '%s' must be 0 or 1", setting.source.c_str(),
        setting.value.c_str());
  return false;
}

Cache& TheCache() {
  static auto* cache = [] {
    auto* made = new Cache;
    made->is_wanted = IsWanted();
    return made;
  }();
  return *cache;
}

template <typename T>
void Append(std::string* text, const T& value) {
  text->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// All that an answer may depend on besides the question: who gives it, the library, the driver, the
// device of this thread's context, and what of the environment the server's libraries get to see.
std::string Identity(uint8_t library, int64_t version) {
  const Welcome& welcome = CurrentSession()->welcome();
  const Context* context = CurrentContext();
  const Device* device = FindDevice(context == nullptr ? 0 : context->device);
  std::string text = "farcall-answers-2|" + SessionScope() + "|" + welcome.device_kind + "|" +
                     std::to_string(welcome.driver_version) + "|" + device->snapshot->name + "|";
  Append(&text, library);
  Append(&text, version);
  Append(&text, device->snapshot->total_bytes);
  for (int32_t attribute : device->snapshot->attributes) Append(&text, attribute);
  for (std::string_view name : ForwardedVariables()) {
    const char* value = std::getenv(std::string(name).c_str());
    if (value != nullptr) text.append(name).append("=").append(value).append("|");
  }
  return text;
}

void Load(File* file) {
  const bool whole = ReadRecords(file->path, [file](uint8_t kind, std::span<const std::byte> body) {
    Hash256 question;
    file->bytes += body.size();
    if (kind != kAnswer || body.size() < question.size()) return;
    std::memcpy(question.data(), body.data(), question.size());
    body = body.subspan(question.size());
    file->answers.emplace(question,
                          std::string(reinterpret_cast<const char*>(body.data()), body.size()));
  });
  if (whole) return;
  unlink(file->path.c_str());  // what follows damage would never be read
  file->answers.clear();       // so that all of it is kept anew
  file->bytes = 0;
}

File* FileOf(Cache& cache, uint8_t library, int64_t version) {
  const std::string identity = Identity(library, version);
  std::unique_ptr<File>& file = cache.files[identity];
  if (file == nullptr) {
    file = std::make_unique<File>();
    file->path =
        GetConfig().cache_dir + "/libraries/" + HexOf(HashOf(identity.data(), identity.size()));
    Load(file.get());
  }
  return file.get();
}

bool IsReady(const Cache& cache, int64_t version) {
  return cache.is_wanted && version != 0 && CurrentSession() != nullptr && FindDevice(0) != nullptr;
}

}  // namespace

bool KeptAnswer(uint8_t library, int64_t version, const void* question, size_t question_bytes,
                TakeReply take, void* user) {
  Cache& cache = TheCache();
  if (!IsReady(cache, version)) return false;
  std::lock_guard lock(cache.mutex);
  const File* file = FileOf(cache, library, version);
  auto found = file->answers.find(HashOf(question, question_bytes));
  if (found == file->answers.end()) return false;
  take(user, found->second.data(), found->second.size());
  return true;
}

void KeepAnswer(uint8_t library, int64_t version, const void* question, size_t question_bytes,
                const void* answer, size_t answer_bytes) {
  Cache& cache = TheCache();
  if (!IsReady(cache, version) || answer_bytes > kMaxAnswerBytes) return;
  const Hash256 hash = HashOf(question, question_bytes);
  std::vector<std::byte> body(hash.size() + answer_bytes);
  std::memcpy(body.data(), hash.data(), hash.size());
  std::memcpy(body.data() + hash.size(), answer, answer_bytes);
  std::lock_guard lock(cache.mutex);
  File* file = FileOf(cache, library, version);
  if (file->path.empty() || file->bytes + body.size() > kMaxFileBytes ||
      file->answers.contains(hash))
    return;
  file->answers.emplace(hash, std::string(static_cast<const char*>(answer), answer_bytes));
  file->bytes += body.size();
  if (AppendRecord(file->path, kAnswer, body)) return;
  Log(LogLevel::kWarn,
      "answers of libraries cannot be kept: %s: %s; name a folder that can be written in "
      "FARCALL_CACHE_DIR",
      file->path.c_str(), std::strerror(errno));
  cache.is_wanted = false;
}

}  // namespace farcall::client
