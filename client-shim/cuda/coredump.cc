// SPDX-License-Identifier: Apache-2.0
// Settings of core dumps. They are kept; none is ever written, so whoever asks for one is refused.
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr size_t kMaxNameBytes = 1023;

struct Settings {
  bool trigger_host = true;
  bool lightweight = false;
  std::string file, pipe;
  int flags = CU_COREDUMP_DEFAULT_FLAGS;
};

std::string DefaultName(const char* prefix) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return std::string(prefix) + host + "." + std::to_string(getpid());
}

struct AllSettings {
  std::mutex mutex;
  Settings global;
  std::map<uint64_t, Settings> of_context;  // by the context's id: what was set there
  AllSettings() {
    global.file = DefaultName("core.cuda.");
    global.pipe = DefaultName("corepipe.cuda.");
  }
  Settings& Of(const Context* context) {
    return context == nullptr ? global : of_context.try_emplace(context->id, global).first->second;
  }
};

AllSettings& TheSettings() {
  static auto* settings = new AllSettings;
  return *settings;
}

CUresult Give(const void* from, size_t bytes, void* value, size_t* size) {
  if (value == nullptr) {
    *size = bytes;
    return CUDA_SUCCESS;
  }
  if (*size < bytes) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(value, from, bytes);
  *size = bytes;
  return CUDA_SUCCESS;
}

CUresult Get(const Context* context, CUcoredumpSettings attribute, void* value, size_t* size) {
  if (size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  AllSettings& all = TheSettings();
  std::lock_guard lock(all.mutex);
  const Settings& settings = all.Of(context);
  const bool off = false;
  switch (attribute) {
    case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    case CU_COREDUMP_ENABLE_USER_TRIGGER:
      return Give(&off, sizeof(off), value, size);
    case CU_COREDUMP_TRIGGER_HOST:
      return Give(&settings.trigger_host, sizeof(bool), value, size);
    case CU_COREDUMP_LIGHTWEIGHT:
      return Give(&settings.lightweight, sizeof(bool), value, size);
    case CU_COREDUMP_FILE:
      return Give(settings.file.c_str(), settings.file.size() + 1, value, size);
    case CU_COREDUMP_PIPE:
      return Give(settings.pipe.c_str(), settings.pipe.size() + 1, value, size);
    case CU_COREDUMP_GENERATION_FLAGS:
      return Give(&settings.flags, sizeof(int), value, size);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SetSwitch(bool* kept, const void* value, size_t size) {
  bool on = false;
  if (size < sizeof(on)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(&on, value, sizeof(on));
  if (kept != nullptr) {
    *kept = on;
    return CUDA_SUCCESS;
  }
  if (on) Log(LogLevel::kWarn, "core dumps of the device are not written: it is another machine's");
  return on ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult SetName(std::string* kept, const void* value, size_t size) {
  size_t length = strnlen(static_cast<const char*>(value), size);
  if (length == 0 || length > kMaxNameBytes) return CUDA_ERROR_INVALID_VALUE;
  kept->assign(static_cast<const char*>(value), length);
  return CUDA_SUCCESS;
}

CUresult Set(const Context* context, CUcoredumpSettings attribute, const void* value,
             const size_t* size) {
  if (value == nullptr || size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  AllSettings& all = TheSettings();
  std::lock_guard lock(all.mutex);
  Settings& settings = all.Of(context);
  switch (attribute) {
    case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    case CU_COREDUMP_ENABLE_USER_TRIGGER:
      return SetSwitch(nullptr, value, *size);
    case CU_COREDUMP_TRIGGER_HOST:
      return SetSwitch(&settings.trigger_host, value, *size);
    case CU_COREDUMP_LIGHTWEIGHT:
      return SetSwitch(&settings.lightweight, value, *size);
    case CU_COREDUMP_FILE:
      return SetName(&settings.file, value, *size);
    case CU_COREDUMP_PIPE:
      return SetName(&settings.pipe, value, *size);
    case CU_COREDUMP_GENERATION_FLAGS: {
      int flags = 0;
      if (*size < sizeof(flags)) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(&flags, value, sizeof(flags));
      if ((flags & ~(CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
      settings.flags = flags;
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult Call_cuCoredumpGetAttribute(CUcoredumpSettings attrib, void* value, size_t* size) {
  return Get(CurrentContext(), attrib, value, size);
}

CUresult Call_cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void* value, size_t* size) {
  return Get(nullptr, attrib, value, size);
}

CUresult Call_cuCoredumpSetAttribute(CUcoredumpSettings attrib, void* value, size_t* size) {
  return Set(CurrentContext(), attrib, value, size);
}

CUresult Call_cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void* value, size_t* size) {
  return Set(nullptr, attrib, value, size);
}

}  // namespace farcall::client
