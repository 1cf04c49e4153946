// SPDX-License-Identifier: Apache-2.0
#include "client-shim/thin/content.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "client-shim/thin/call.h"
#include "client-shim/thin/kept.h"
#include "client-shim/thin/unused.h"

namespace farcall::thin {

namespace {

struct Contents {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Content>> by_key;
};

Contents& TheContents() {
  static auto* contents = new Contents;
  return *contents;
}

std::string KeyOf(uint16_t kind, const std::vector<Step>& steps) {
  std::string key(reinterpret_cast<const char*>(&kind), sizeof(kind));
  for (const Step& step : steps) {
    uint64_t bytes = step.record.size();
    key.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    key.append(step.record, offsetof(LibraryHeader, library));
  }
  return key;
}

// {header, the object}: what makes or ends one.
struct Bare {
  Bare(uint16_t function, const client::LibraryObject* object) : id(object->id.load()) {
    header.library = static_cast<uint8_t>(kLibrary.id);
    header.major = static_cast<uint8_t>(kMajor);
    header.function = function;
  }
  LibraryHeader header{};
  uint64_t id;
};

struct Asked {
  int cuda;
  int status;
};

Asked AskRecord(void* record, size_t bytes, void* stream, client::StreamUse use) {
  Asked asked{0, kLibrary.internal};
  asked.cuda = Channel().ask(
      record, bytes, stream, use,
      [](void* user, const void* reply, size_t count) {
        Reader in(std::span(static_cast<const std::byte*>(reply), count));
        auto status = in.Get<int32_t>();
        if (in.ok()) static_cast<Asked*>(user)->status = status;
      },
      &asked);
  return asked;
}

int PostRecord(void* record, size_t bytes) {
  int said = 0;
  int posted = Channel().post(record, bytes, nullptr, client::StreamUse::kNone, &said);
  return posted != 0 ? StatusOf(posted) : said;
}

// The object of `content` on the server. `last_stream`: of the last step's handle. `known`: such a
// one was taken before, and need not be asked.
Asked Make(Content* content, void* last_stream, client::StreamUse use, bool known) {
  content->object = Channel().new_object(static_cast<uint8_t>(kLibrary.id),
                                         static_cast<uint8_t>(content->kind), nullptr);
  if (content->object == nullptr) return {0, kLibrary.memory};
  Bare create(content->create, content->object);
  if (content->steps.empty() && !known)
    return AskRecord(&create, sizeof(create), nullptr, client::StreamUse::kNone);
  int status = PostRecord(&create, sizeof(create));
  if (status != 0 || content->steps.empty()) return {0, status};
  for (size_t i = 0; i < content->steps.size(); ++i) {
    const Step& step = content->steps[i];
    std::string record = step.record;
    std::memcpy(record.data() + step.target_at, &create.id, sizeof(create.id));
    if (i + 1 == content->steps.size() && !known)
      return AskRecord(record.data(), record.size(), last_stream, use);
    status = PostRecord(record.data(), record.size());
    if (status != 0) return {0, status};
  }
  return {0, 0};
}

// What the server refused is remembered as such; what did not reach it is not.
int Settle(Content* content, const Asked& asked) {
  content->status = asked.cuda != 0 ? StatusOf(asked.cuda) : asked.status;
  if (content->status == 0 || content->object == nullptr) return content->status;
  Bare destroy(content->destroy, content->object);
  PostRecord(&destroy, sizeof(destroy));
  Channel().end_object(content->object);
  content->object = nullptr;
  return content->status;
}

std::shared_ptr<Content> Intern(std::shared_ptr<Content> wanted, void* stream,
                                client::StreamUse use, bool fresh, int* status) {
  Contents& contents = TheContents();
  std::string key = KeyOf(wanted->kind, wanted->steps);
  if (!fresh) {
    std::lock_guard lock(contents.mutex);
    auto found = contents.by_key.find(key);
    if (found != contents.by_key.end()) {
      *status = found->second->status;
      return found->second;
    }
  }
  const std::string print = fresh ? "" : PrintOf(*wanted);
  const bool known = IsKept(Kept::kContent, print);
  Asked asked = Make(wanted.get(), stream, use, known);
  *status = Settle(wanted.get(), asked);
  if (*status == 0 && !known) Keep(Kept::kContent, print, "");
  if (asked.cuda != 0 || fresh) return wanted;
  std::vector<std::shared_ptr<Content>> gone;  // ends outside the lock
  std::lock_guard lock(contents.mutex);
  DropUnused(&contents.by_key, &gone);
  return contents.by_key.emplace(std::move(key), std::move(wanted)).first->second;
}

}  // namespace

Content::~Content() {
  if (object == nullptr) return;
  Bare record(destroy, object);
  PostRecord(&record, sizeof(record));
  Channel().end_object(object);
}

std::string PrintOf(const Content& content) {
  std::string print(reinterpret_cast<const char*>(&content.kind), sizeof(content.kind));
  for (const Step& step : content.steps) {
    if (step.fresh || step.has_addresses) return "";
    std::string record = step.record;
    for (size_t at : step.objects_at) std::memset(record.data() + at, 0, sizeof(uint64_t));
    AppendPart(&print, std::string_view(record).substr(offsetof(LibraryHeader, library)));
    for (const std::shared_ptr<Content>& named : step.named) {
      const std::string part = PrintOf(*named);
      if (part.empty()) return "";
      AppendPart(&print, part);
    }
  }
  return print;
}

int CreateDescribed(void** descriptor, uint16_t kind, uint16_t create, uint16_t destroy) {
  if (descriptor == nullptr) return kLibrary.value;
  int status = Open();
  if (status != 0) return status;
  auto empty = std::make_shared<Content>();
  empty->kind = kind;
  empty->create = create;
  empty->destroy = destroy;
  auto described = std::make_unique<Described>();
  described->content = Intern(std::move(empty), nullptr, client::StreamUse::kNone, false, &status);
  if (status != 0) return status;
  described->object = Channel().new_object(static_cast<uint8_t>(kind >> 8),
                                           static_cast<uint8_t>(kind), described.get());
  if (described->object == nullptr) return kLibrary.memory;
  described->object->id.store(described->content->object->id.load(), std::memory_order_release);
  *descriptor = described->object;
  (void)described.release();
  return 0;
}

int ResetDescribed(Described* described) {
  auto empty = std::make_shared<Content>();
  empty->kind = described->content->kind;
  empty->create = described->content->create;
  empty->destroy = described->content->destroy;
  int status = 0;
  std::shared_ptr<Content> content =
      Intern(std::move(empty), nullptr, client::StreamUse::kNone, false, &status);
  if (status != 0) return status;
  described->content = std::move(content);
  described->object->id.store(described->content->object->id.load(), std::memory_order_release);
  return 0;
}

Described* FindDescribed(const void* descriptor, uint16_t kind) {
  State* state = StateOf<State>(descriptor, kind);
  return state == nullptr || state->is_handle ? nullptr : static_cast<Described*>(state);
}

int DestroyDescribed(const void* descriptor, uint16_t kind) {
  if (descriptor == nullptr) return 0;
  Described* described = FindDescribed(descriptor, kind);
  if (described == nullptr) return kLibrary.handle;
  described->object->state = nullptr;
  Channel().end_object(described->object);
  delete described;
  return 0;
}

void Call::Target(const void* handle, uint16_t kind) {
  if (refused_ != 0) return;
  target_ = FindDescribed(handle, kind);
  if (target_ == nullptr) return Refuse(kLibrary.handle);
  target_at_ = AlignUp(used_bytes_, 8);
  PutWord(0);
}

int Call::Set(bool fresh) {
  if (refused_ != 0) return refused_;
  int begun = Begin();
  if (begun != 0) return begun;
  if (used_bytes_ > kMaxBytes) return kLibrary.unsupported;
  auto wanted = std::make_shared<Content>();
  const Content& before = *target_->content;
  wanted->kind = before.kind;
  wanted->create = before.create;
  wanted->destroy = before.destroy;
  std::copy_if(before.steps.begin(), before.steps.end(), std::back_inserter(wanted->steps),
               [this](const Step& step) { return step.function != function_ && !step.fresh; });
  Step step{function_,
            {reinterpret_cast<const char*>(base_), used_bytes_},
            target_at_,
            {},
            fresh,
            {},
            has_addresses_ || unplaced_};
  for (const Placed& placed : placed_span()) {
    step.objects_at.push_back(placed.at);
    if (placed.content != nullptr) step.named.push_back(placed.content->content_of());
  }
  const bool names = !step.named.empty();
  wanted->steps.push_back(std::move(step));
  int status = 0;
  std::shared_ptr<Content> content =
      Intern(std::move(wanted), stream_, stream_use(), fresh, &status);
  if (status != 0) return Late(status);
  target_->content = std::move(content);
  target_->object->id.store(target_->content->object->id.load(), std::memory_order_release);
  if (names) target_->named = last_named_;
  return Late(0);
}

}  // namespace farcall::thin
