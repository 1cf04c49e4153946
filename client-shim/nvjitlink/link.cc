// SPDX-License-Identifier: Apache-2.0
// Inputs are collected here; linking is one record (server/toolchain/nvjitlink.cc), and what can be
// asked of it afterwards is answered here. Every version's name of a function is the same one.
#define NVJITLINK_NO_INLINE
#include <nvJitLink.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client-shim/core/report/fork_lock.h"
#include "client-shim/thin/blobs.h"
#include "client-shim/thin/call.h"
#include "client-shim/thin/forked.h"
#include "generated/proto/nvjitlink_call.h"

#define LINK_ENTRY extern "C" __attribute__((visibility("default"))) nvJitLinkResult

using farcall::nvjitlink::Function;
using farcall::thin::Call;

namespace {

struct Input {
  nvJitLinkInputType type;
  std::string data, name;
};
struct Part {
  nvJitLinkResult status;
  std::string bytes;
};
struct Link {
  std::vector<std::string> options;
  std::vector<Input> inputs;
  std::mutex mutex;
  std::string error_log, info_log;
  Part cubin{NVJITLINK_ERROR_INTERNAL, ""}, ptx{NVJITLINK_ERROR_INVALID_INPUT, ""};
  bool is_refused = false;  // its options
};
struct Links {
  farcall::client::ForkLock mutex;
  std::unordered_map<nvJitLinkHandle, std::shared_ptr<Link>> live;
};
// Never destroyed: handlers of exit may still use it.
Links& TheLinks() {
  static auto* links = new Links;
  return *links;
}

std::shared_ptr<Link> Find(nvJitLinkHandle handle) {
  if (farcall::thin::IsForked()) return nullptr;
  Links& links = TheLinks();
  std::lock_guard lock(links.mutex);
  auto found = links.live.find(handle);
  return found == links.live.end() ? nullptr : found->second;
}

// What the server's library says to these options: asked once for each list.
struct Verdict {
  int status = 0;
  std::string error_log, info_log;
};
Verdict AskAboutOptions(const std::vector<std::string>& options) {
  Verdict verdict;
  Call call(Function::nvJitLinkCreate);
  farcall::thin::CallTexts texts(call);
  call.Value<uint32_t>(static_cast<uint32_t>(options.size()));
  for (const std::string& option : options) texts.Put(option);
  farcall::thin::LongAnswer answer;
  answer.Await(call);
  verdict.status = call.Ask();
  if (verdict.status == 0) verdict.status = answer.Complete();
  if (verdict.status != 0) return verdict;
  farcall::Reader in(std::as_bytes(std::span(answer.bytes)));
  verdict.status = in.Get<int32_t>();
  in.Get<uint32_t>();
  verdict.error_log = in.GetString();
  verdict.info_log = in.GetString();
  return verdict;
}

Verdict VerdictOf(const std::vector<std::string>& options) {
  static auto* mutex = new std::mutex;
  static auto* said = new std::map<std::vector<std::string>, Verdict>;
  // Also in a child, where the lock may be nobody's.
  const int opened = farcall::thin::Open();
  if (opened != 0) return {opened, "", ""};
  std::lock_guard lock(*mutex);
  auto found = said->find(options);
  if (found != said->end()) return found->second;
  Verdict verdict = AskAboutOptions(options);
  constexpr size_t kMax = 4096;
  if (verdict.status != farcall::thin::kLibrary.internal && said->size() < kMax)
    said->emplace(options, verdict);
  return verdict;
}

// What is plainly none of its kind; the rest is the server's library's to say.
bool IsOfType(nvJitLinkInputType type, std::string_view data) {
  switch (type) {
    case NVJITLINK_INPUT_CUBIN:
      return data.substr(0, 4) ==
             "\x7f"
             "ELF";
    case NVJITLINK_INPUT_PTX:
      return data.find(".version") != std::string_view::npos;
    case NVJITLINK_INPUT_FATBIN:
      return data.substr(0, 4) == "\x50\xed\x55\xba";
    case NVJITLINK_INPUT_LTOIR:
    case NVJITLINK_INPUT_OBJECT:
    case NVJITLINK_INPUT_LIBRARY:
    case NVJITLINK_INPUT_INDEX:
    case NVJITLINK_INPUT_ANY:
      return true;
    default:
      return false;
  }
}

int Run(Link& link) {
  Call call(Function::nvJitLinkComplete);
  farcall::thin::CallTexts texts(call);
  call.Value<uint32_t>(static_cast<uint32_t>(link.options.size()));
  call.Value<uint32_t>(static_cast<uint32_t>(link.inputs.size()));
  for (const std::string& option : link.options) texts.Put(option);
  for (const Input& input : link.inputs) {
    call.Value<uint32_t>(static_cast<uint32_t>(input.type));
    texts.Put(input.data);
    texts.Put(input.name);
  }
  farcall::thin::LongAnswer answer;
  answer.Await(call);
  int status = call.Ask();
  if (status == 0) status = answer.Complete();
  if (status != 0) return status;
  farcall::Reader in(std::as_bytes(std::span(answer.bytes)));
  const auto linked = in.Get<int32_t>();
  const bool is_whole = in.Get<uint32_t>() != 0;
  link.error_log = in.GetString();
  link.info_log = in.GetString();
  for (Part* part : {&link.cubin, &link.ptx}) {
    if (!is_whole) break;
    part->status = static_cast<nvJitLinkResult>(in.Get<int32_t>());
    in.Get<uint32_t>();
    part->bytes = in.GetString();
  }
  return in.Done() ? linked : farcall::thin::kLibrary.internal;
}

nvJitLinkResult TellText(nvJitLinkHandle handle, std::string Link::*text, size_t* bytes, char* to) {
  std::shared_ptr<Link> link = Find(handle);
  if (link == nullptr || (bytes == nullptr && to == nullptr)) return NVJITLINK_ERROR_NULL_INPUT;
  std::lock_guard lock(link->mutex);
  const std::string& told = (*link).*text;
  if (bytes != nullptr) *bytes = told.size();
  if (to != nullptr) std::copy(told.begin(), told.end(), to);  // it has its null
  return NVJITLINK_SUCCESS;
}

nvJitLinkResult TellPart(nvJitLinkHandle handle, Part Link::*part, size_t* bytes, void* to) {
  std::shared_ptr<Link> link = Find(handle);
  if (link == nullptr || (bytes == nullptr && to == nullptr)) return NVJITLINK_ERROR_NULL_INPUT;
  std::lock_guard lock(link->mutex);
  const Part& told = (*link).*part;
  if (told.status != NVJITLINK_SUCCESS) return told.status;
  if (bytes != nullptr) *bytes = told.bytes.size();
  if (to != nullptr) std::memcpy(to, told.bytes.data(), told.bytes.size());
  return NVJITLINK_SUCCESS;
}

}  // namespace

LINK_ENTRY nvJitLinkCreate(nvJitLinkHandle* handle, uint32_t count, const char* const* given) {
  if (handle == nullptr || given == nullptr) return NVJITLINK_ERROR_NULL_INPUT;
  auto link = std::make_shared<Link>();
  for (uint32_t i = 0; i < count; ++i) {
    if (given[i] == nullptr) return NVJITLINK_ERROR_NULL_INPUT;
    link->options.emplace_back(given[i]);
  }
  Verdict verdict = VerdictOf(link->options);
  // Refused options leave a handle whose log says why.
  link->is_refused = verdict.status != 0;
  link->error_log = std::move(verdict.error_log);
  link->info_log = std::move(verdict.info_log);
  auto made = reinterpret_cast<nvJitLinkHandle>(link.get());
  Links& links = TheLinks();
  std::lock_guard lock(links.mutex);
  links.live.emplace(made, std::move(link));
  *handle = made;
  return static_cast<nvJitLinkResult>(verdict.status);
}

LINK_ENTRY nvJitLinkDestroy(nvJitLinkHandle* handle) {
  if (handle == nullptr) return NVJITLINK_ERROR_NULL_INPUT;
  Links& links = TheLinks();
  std::lock_guard lock(links.mutex);
  if (links.live.erase(*handle) == 0) return NVJITLINK_ERROR_NULL_INPUT;
  *handle = nullptr;
  return NVJITLINK_SUCCESS;
}

LINK_ENTRY nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType type, const void* data,
                            size_t bytes, const char* name) {
  std::shared_ptr<Link> link = Find(handle);
  if (link == nullptr || data == nullptr) return NVJITLINK_ERROR_NULL_INPUT;
  if (bytes == 0) return NVJITLINK_ERROR_INVALID_INPUT;
  if (!IsOfType(type, std::string_view(static_cast<const char*>(data), bytes)))
    return NVJITLINK_ERROR_INCORRECT_INPUT_TYPE;
  std::lock_guard lock(link->mutex);
  link->inputs.push_back(
      {type, std::string(static_cast<const char*>(data), bytes), name == nullptr ? "" : name});
  return NVJITLINK_SUCCESS;
}

LINK_ENTRY nvJitLinkAddFile(nvJitLinkHandle handle, nvJitLinkInputType type, const char* path) {
  if (Find(handle) == nullptr || path == nullptr) return NVJITLINK_ERROR_NULL_INPUT;
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return NVJITLINK_ERROR_INVALID_INPUT;
  std::string data;
  char piece[1 << 16];
  for (size_t read; (read = std::fread(piece, 1, sizeof(piece), file)) != 0;)
    data.append(piece, read);
  std::fclose(file);
  return nvJitLinkAddData(handle, type, data.data(), data.size(), path);
}

LINK_ENTRY nvJitLinkComplete(nvJitLinkHandle handle) {
  std::shared_ptr<Link> link = Find(handle);
  if (link == nullptr) return NVJITLINK_ERROR_NULL_INPUT;
  std::lock_guard lock(link->mutex);
  if (link->is_refused) return NVJITLINK_ERROR_INTERNAL;
  return static_cast<nvJitLinkResult>(Run(*link));
}

LINK_ENTRY nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t* bytes) {
  return TellPart(handle, &Link::cubin, bytes, nullptr);
}
LINK_ENTRY nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void* to) {
  return TellPart(handle, &Link::cubin, nullptr, to);
}
LINK_ENTRY nvJitLinkGetLinkedPtxSize(nvJitLinkHandle handle, size_t* bytes) {
  return TellPart(handle, &Link::ptx, bytes, nullptr);
}
LINK_ENTRY nvJitLinkGetLinkedPtx(nvJitLinkHandle handle, char* to) {
  return TellPart(handle, &Link::ptx, nullptr, to);
}
LINK_ENTRY nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t* bytes) {
  return TellText(handle, &Link::error_log, bytes, nullptr);
}
LINK_ENTRY nvJitLinkGetErrorLog(nvJitLinkHandle handle, char* to) {
  return TellText(handle, &Link::error_log, nullptr, to);
}
LINK_ENTRY nvJitLinkGetInfoLogSize(nvJitLinkHandle handle, size_t* bytes) {
  return TellText(handle, &Link::info_log, bytes, nullptr);
}
LINK_ENTRY nvJitLinkGetInfoLog(nvJitLinkHandle handle, char* to) {
  return TellText(handle, &Link::info_log, nullptr, to);
}

LINK_ENTRY nvJitLinkVersion(unsigned int* major, unsigned int* minor) {
  if (major == nullptr || minor == nullptr) return NVJITLINK_ERROR_INVALID_INPUT;
  *major = static_cast<unsigned>(farcall::thin::VersionPart(0));
  *minor = static_cast<unsigned>(farcall::thin::VersionPart(1));
  return NVJITLINK_SUCCESS;
}

// What programs are linked to: the names of the CUDA that they were built with.
#define SAME(name, version, ...) \
  LINK_ENTRY __##name##_##version(__VA_ARGS__) __attribute__((alias(#name)));
#define VERSION(version)                                                                    \
  SAME(nvJitLinkCreate, version, nvJitLinkHandle*, uint32_t, const char* const*)            \
  SAME(nvJitLinkDestroy, version, nvJitLinkHandle*)                                         \
  SAME(nvJitLinkAddData, version, nvJitLinkHandle, nvJitLinkInputType, const void*, size_t, \
       const char*)                                                                         \
  SAME(nvJitLinkAddFile, version, nvJitLinkHandle, nvJitLinkInputType, const char*)         \
  SAME(nvJitLinkComplete, version, nvJitLinkHandle)                                         \
  SAME(nvJitLinkGetLinkedCubinSize, version, nvJitLinkHandle, size_t*)                      \
  SAME(nvJitLinkGetLinkedCubin, version, nvJitLinkHandle, void*)                            \
  SAME(nvJitLinkGetLinkedPtxSize, version, nvJitLinkHandle, size_t*)                        \
  SAME(nvJitLinkGetLinkedPtx, version, nvJitLinkHandle, char*)                              \
  SAME(nvJitLinkGetErrorLogSize, version, nvJitLinkHandle, size_t*)                         \
  SAME(nvJitLinkGetErrorLog, version, nvJitLinkHandle, char*)                               \
  SAME(nvJitLinkGetInfoLogSize, version, nvJitLinkHandle, size_t*)                          \
  SAME(nvJitLinkGetInfoLog, version, nvJitLinkHandle, char*)
VERSION(12_0)
VERSION(12_1)
VERSION(12_2)
VERSION(12_3)
VERSION(12_4)
VERSION(12_5)
VERSION(12_6)
VERSION(12_7)
VERSION(12_8)
VERSION(12_9)
VERSION(13_0)
VERSION(13_1)
VERSION(13_2)
VERSION(13_3)
VERSION(13_4)
VERSION(13_5)
