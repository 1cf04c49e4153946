// SPDX-License-Identifier: Apache-2.0
// nvJitLink for a device that executes PTX alone: link-time optimisation stops at PTX, and without
// it the device's own linker (cuLink) puts the inputs together; nvJitLinkGetLinkedCubin hands out
// what came of it, which the driver loads like a cubin. All else is the real library's.
#include "toolkit/nvjitlink.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpu-device/compilers/device_linker.h"
#include "cpu-device/compilers/real_library.h"

#define LINK_ENTRY __attribute__((visibility("default"))) nvJitLinkResult

extern "C" const int farcall_lacking = NVJITLINK_ERROR_INTERNAL;

using farcall::cpu_device::DeviceLinker;

namespace {

struct Text {
  std::string data, name;
};
// What is to become machine code. No linker: -lto and an input that may hold intermediate code, of
// which the real library makes PTX. Texts alone are the device's also with -lto: NVIDIA's release
// may be older than what wrote them.
struct Link {
  std::unique_ptr<DeviceLinker> linker = std::make_unique<DeviceLinker>();
  bool is_lto = false;
  std::vector<Text> held;  // with -lto: what the real library has not been given so far
};
struct Links {
  std::mutex mutex;
  std::unordered_map<nvJitLinkHandle, std::shared_ptr<Link>> live;
};
// Never destroyed: handlers of exit may still link.
Links& TheLinks() {
  static auto* links = new Links;
  return *links;
}

// Null: PTX was asked for, or it is none of those made here.
std::shared_ptr<Link> Find(nvJitLinkHandle handle) {
  std::lock_guard lock(TheLinks().mutex);
  const auto found = TheLinks().live.find(handle);
  return found == TheLinks().live.end() ? nullptr : found->second;
}

// The device's linker of this handle; null: the real library links.
DeviceLinker* LinkerOf(nvJitLinkHandle handle) {
  const std::shared_ptr<Link> link = Find(handle);
  return link == nullptr ? nullptr : link->linker.get();
}

bool Has(const std::vector<const char*>& options, std::string_view wanted) {
  return std::any_of(options.begin(), options.end(),
                     [&](const char* option) { return option != nullptr && option == wanted; });
}

constexpr std::string_view kElf =
    "\x7f"
    "ELF";

// What the device's linker is told; CU_JIT_INPUT_PTX also for the text that stands for a cubin.
bool TypeOf(nvJitLinkInputType type, std::string_view data, CUjitInputType* out) {
  switch (type) {
    case NVJITLINK_INPUT_CUBIN:
    case NVJITLINK_INPUT_PTX:
      *out = data.starts_with(kElf) ? CU_JIT_INPUT_CUBIN : CU_JIT_INPUT_PTX;
      return true;
    case NVJITLINK_INPUT_FATBIN:
      *out = CU_JIT_INPUT_FATBINARY;
      return true;
    case NVJITLINK_INPUT_OBJECT:
      *out = CU_JIT_INPUT_OBJECT;
      return true;
    case NVJITLINK_INPUT_LIBRARY:
      *out = CU_JIT_INPUT_LIBRARY;
      return true;
    case NVJITLINK_INPUT_ANY:
      *out = data.starts_with("\x50\xed\x55\xba") ? CU_JIT_INPUT_FATBINARY
             : data.starts_with("!<arch>")        ? CU_JIT_INPUT_LIBRARY
             : data.starts_with(kElf)             ? CU_JIT_INPUT_OBJECT
                                                  : CU_JIT_INPUT_PTX;
      return true;
    default:  // link-time intermediate code without -lto: the real library says what is wrong
      return false;
  }
}

// All that was held goes to the real library, which does the rest.
nvJitLinkResult HandOver(nvJitLinkHandle handle, Link& link) {
  const auto add = FARCALL_REAL(nvJitLinkAddData);
  link.linker.reset();
  nvJitLinkResult result = add == nullptr ? NVJITLINK_ERROR_INTERNAL : NVJITLINK_SUCCESS;
  for (const Text& text : link.held) {
    if (result != NVJITLINK_SUCCESS) break;
    result = add(handle, NVJITLINK_INPUT_PTX, text.data.data(), text.data.size(),
                 text.name.empty() ? nullptr : text.name.c_str());
  }
  link.held.clear();
  return result;
}

}  // namespace

LINK_ENTRY nvJitLinkCreate(nvJitLinkHandle* handle, uint32_t count, const char** options) {
  const auto real = FARCALL_REAL(nvJitLinkCreate);
  if (real == nullptr) return NVJITLINK_ERROR_INTERNAL;
  if (options == nullptr) return real(handle, count, options);
  std::vector<const char*> asked(options, options + count);
  if (Has(asked, "-ptx")) return real(handle, count, options);
  const bool is_lto = Has(asked, "-lto");
  if (is_lto) asked.push_back("-ptx");
  const nvJitLinkResult result = real(handle, static_cast<uint32_t>(asked.size()), asked.data());
  if (result == NVJITLINK_SUCCESS) {
    auto link = std::make_shared<Link>();
    link->is_lto = is_lto;
    std::lock_guard lock(TheLinks().mutex);
    TheLinks().live[*handle] = std::move(link);
  }
  return result;
}

LINK_ENTRY nvJitLinkDestroy(nvJitLinkHandle* handle) {
  const auto real = FARCALL_REAL(nvJitLinkDestroy);
  if (real == nullptr) return NVJITLINK_ERROR_INTERNAL;
  if (handle != nullptr) {
    std::lock_guard lock(TheLinks().mutex);
    TheLinks().live.erase(*handle);
  }
  return real(handle);
}

LINK_ENTRY nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType type, const void* data,
                            size_t bytes, const char* name) {
  CUjitInputType device_type;
  const std::shared_ptr<Link> link = Find(handle);
  if (link != nullptr && link->linker != nullptr && data != nullptr) {
    const std::string_view bytes_of{static_cast<const char*>(data), bytes};
    const bool is_known = TypeOf(type, bytes_of, &device_type);
    if (is_known && (!link->is_lto || device_type == CU_JIT_INPUT_PTX)) {
      if (link->is_lto) link->held.push_back({std::string(bytes_of), name == nullptr ? "" : name});
      return link->linker->Add(device_type, data, bytes) ? NVJITLINK_SUCCESS
                                                         : NVJITLINK_ERROR_INVALID_INPUT;
    }
    if (link->is_lto) {
      const nvJitLinkResult result = HandOver(handle, *link);
      if (result != NVJITLINK_SUCCESS) return result;
    }
  }
  const auto real = FARCALL_REAL(nvJitLinkAddData);
  return real == nullptr ? NVJITLINK_ERROR_INTERNAL : real(handle, type, data, bytes, name);
}

LINK_ENTRY nvJitLinkAddFile(nvJitLinkHandle handle, nvJitLinkInputType type, const char* path) {
  if (LinkerOf(handle) != nullptr && path != nullptr) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    // What cannot be read is left to the real library to say.
    if (!bytes.empty()) return nvJitLinkAddData(handle, type, bytes.data(), bytes.size(), path);
  }
  const auto real = FARCALL_REAL(nvJitLinkAddFile);
  return real == nullptr ? NVJITLINK_ERROR_INTERNAL : real(handle, type, path);
}

LINK_ENTRY nvJitLinkComplete(nvJitLinkHandle handle) {
  if (DeviceLinker* linker = LinkerOf(handle))
    return linker->Complete() ? NVJITLINK_SUCCESS : NVJITLINK_ERROR_INTERNAL;
  const auto real = FARCALL_REAL(nvJitLinkComplete);
  return real == nullptr ? NVJITLINK_ERROR_INTERNAL : real(handle);
}

LINK_ENTRY nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t* bytes) {
  const std::shared_ptr<Link> link = Find(handle);
  if (link != nullptr && link->linker != nullptr) {
    if (bytes == nullptr) return NVJITLINK_ERROR_NULL_INPUT;
    *bytes = link->linker->linked().size();
    return *bytes == 0 ? NVJITLINK_ERROR_INTERNAL : NVJITLINK_SUCCESS;
  }
  const auto real = link != nullptr ? FARCALL_REAL(nvJitLinkGetLinkedPtxSize)
                                    : FARCALL_REAL(nvJitLinkGetLinkedCubinSize);
  return real == nullptr ? NVJITLINK_ERROR_INTERNAL : real(handle, bytes);
}

LINK_ENTRY nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void* to) {
  const std::shared_ptr<Link> link = Find(handle);
  if (link != nullptr && link->linker != nullptr) {
    const std::string& linked = link->linker->linked();
    if (to == nullptr) return NVJITLINK_ERROR_NULL_INPUT;
    std::memcpy(to, linked.data(), linked.size());
    return linked.empty() ? NVJITLINK_ERROR_INTERNAL : NVJITLINK_SUCCESS;
  }
  if (link != nullptr) {
    const auto real = FARCALL_REAL(nvJitLinkGetLinkedPtx);
    return real == nullptr ? NVJITLINK_ERROR_INTERNAL : real(handle, static_cast<char*>(to));
  }
  const auto real = FARCALL_REAL(nvJitLinkGetLinkedCubin);
  return real == nullptr ? NVJITLINK_ERROR_INTERNAL : real(handle, to);
}

// What the device's linker has to say goes before what the real library has, which is nothing then.
LINK_ENTRY nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t* bytes) {
  DeviceLinker* linker = LinkerOf(handle);
  if (linker != nullptr && bytes != nullptr && !linker->error().empty()) {
    *bytes = linker->error().size() + 1;
    return NVJITLINK_SUCCESS;
  }
  const auto real = FARCALL_REAL(nvJitLinkGetErrorLogSize);
  return real == nullptr ? NVJITLINK_ERROR_INTERNAL : real(handle, bytes);
}

LINK_ENTRY nvJitLinkGetErrorLog(nvJitLinkHandle handle, char* to) {
  DeviceLinker* linker = LinkerOf(handle);
  if (linker != nullptr && to != nullptr && !linker->error().empty()) {
    std::memcpy(to, linker->error().c_str(), linker->error().size() + 1);
    return NVJITLINK_SUCCESS;
  }
  const auto real = FARCALL_REAL(nvJitLinkGetErrorLog);
  return real == nullptr ? NVJITLINK_ERROR_INTERNAL : real(handle, to);
}
