// SPDX-License-Identifier: Apache-2.0
// Finds the next library and writes the lines.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/recorder/lines.h"

struct RecorderLine {
  std::string text;
  int result;

  void Add(const char* name, const std::string& value) {
    text += std::string(" ") + name + "=" + value;
  }
};

namespace {

void* NextLibrary() {
  static void* const library = [] {
    const char* path = std::getenv("FARCALL_RECORD_NEXT");
    void* loaded = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) {
      std::fprintf(stderr, "recorder: FARCALL_RECORD_NEXT: %s\n",
                   path == nullptr ? "not set" : dlerror());
      std::_Exit(3);
    }
    return loaded;
  }();
  return library;
}

// One append per line keeps the lines of several processes whole.
void Write(const std::string& text) {
  const char* path = std::getenv("FARCALL_RECORD_FILE");
  if (path == nullptr) return;
  int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || write(file, text.data(), text.size()) < 0)
    std::perror("recorder: FARCALL_RECORD_FILE");
  if (file >= 0) close(file);
}

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

uint64_t Hash(const void* data, size_t bytes) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  return hash;
}

const char* FindBuffer(void* const* extra, size_t* bytes) {
  const char* buffer = nullptr;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const char*>(extra[1]);
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) *bytes = *static_cast<const size_t*>(extra[1]);
  }
  return buffer;
}

}  // namespace

void* RecorderNext(const char* name) {
  return dlsym(NextLibrary(), name);
}

void* RecorderOwn(void* function) {
  static const auto* const entries = [] {
    auto* found = new std::map<void*, void*>;
    Dl_info self{};
    dladdr(reinterpret_cast<const void*>(&RecorderNext), &self);
    void* own = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    for (const char* const* name = kRecorderNames; *name != nullptr; ++name)
      if (void* next = RecorderNext(*name)) (*found)[next] = dlsym(own, *name);
    return found;
  }();
  auto entry = entries->find(function);
  return entry == entries->end() ? function : entry->second;
}

RecorderLine* RecorderBegin(const char* name, int result) {
  return new RecorderLine{std::to_string(getpid()) + " " + std::to_string(gettid()) + " " + name +
                              " " + std::to_string(result),
                          result};
}

void RecorderEnd(RecorderLine* line) {
  Write(line->text + "\n");
  delete line;
}

void RecorderNumber(RecorderLine* line, const char* name, long long value) {
  line->Add(name, "n:" + std::to_string(value));
}
void RecorderReal(RecorderLine* line, const char* name, double value) {
  line->Add(name, "n:" + std::to_string(value));
}
void RecorderOpaque(RecorderLine* line, const char* name) {
  line->Add(name, "o");
}

void RecorderAddress(RecorderLine* line, const char* name, unsigned long long value) {
  line->Add(name, "a:" + Hex(value));
}

void RecorderHandle(RecorderLine* line, const char* name, const char* kind, const void* value) {
  line->Add(name, std::string("h:") + kind + ":" + Hex(reinterpret_cast<uintptr_t>(value)));
}

void RecorderHandles(RecorderLine* line, const char* name, const char* kind, const void* values,
                     size_t count) {
  if (values == nullptr || line->result != CUDA_SUCCESS) return RecorderPointer(line, name, values);
  for (size_t i = 0; i < count; ++i) {
    RecorderHandle(line, (std::string(name) + "[" + std::to_string(i) + "]").c_str(), kind,
                   static_cast<const void* const*>(values)[i]);
  }
}

void RecorderPointer(RecorderLine* line, const char* name, const void* value) {
  line->Add(name, value == nullptr ? "p:null" : "p:set");
}

void RecorderText(RecorderLine* line, const char* name, const char* value) {
  if (value == nullptr || line->result != CUDA_SUCCESS) return RecorderPointer(line, name, value);
  std::string shown;
  for (; *value != 0 && shown.size() < 80; ++value)
    shown += *value > ' ' && *value < 127 ? *value : '_';
  line->Add(name, "s:" + shown);
}

void RecorderBytes(RecorderLine* line, const char* name, const void* data, size_t bytes) {
  if (data == nullptr || line->result != CUDA_SUCCESS) return RecorderPointer(line, name, data);
  line->Add(name, "b:" + std::to_string(bytes) + ":" + Hex(Hash(data, bytes)));
}

void RecorderParameters(RecorderLine* line, CUfunction function, void** parameters, void** extra) {
  static const auto info =
      reinterpret_cast<decltype(&::cuFuncGetParamInfo)>(RecorderNext("cuFuncGetParamInfo"));
  if (info == nullptr || line->result != CUDA_SUCCESS) return;
  size_t offset = 0, size = 0, buffer_bytes = 0;
  const char* buffer = FindBuffer(extra, &buffer_bytes);
  for (size_t i = 0; info(function, i, &offset, &size) == CUDA_SUCCESS; ++i) {
    if (parameters == nullptr && (buffer == nullptr || offset + size > buffer_bytes)) return;
    const void* value = parameters != nullptr ? parameters[i] : buffer + offset;
    uint64_t word = 0;
    if (size <= sizeof(word))
      std::memcpy(&word, value, size);
    else
      word = Hash(value, size);
    line->Add(("param" + std::to_string(i)).c_str(), "k:" + std::to_string(size) + ":" + Hex(word));
  }
}
