// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>
#include <string>

#include "driver.h"

namespace {

struct Received {
  int lines = 0;
  std::string last;
};

void Listen(void* data, CUlogLevel level, char* message, size_t length) {
  auto* heard = static_cast<Received*>(data);
  EXPECT(level == CU_LOG_LEVEL_ERROR || level == CU_LOG_LEVEL_WARNING);
  ++heard->lines;
  heard->last.assign(message, length);
}

// An image that no loader takes is an error with a line.
void Err() {
  CUmodule module = nullptr;
  EXPECT(D(cuModuleLoadData)(&module, "not an image at all") != CUDA_SUCCESS);
}

void Logs() {
  Received heard;
  CUlogsCallbackHandle handle = nullptr;
  CUlogIterator at = 0;
  CHECK(D(cuLogsCurrent)(&at, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLogsCurrent)(&at, 1));
  CHECK(D(cuLogsRegisterCallback)(Listen, &heard, &handle));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLogsRegisterCallback)(nullptr, nullptr, &handle));
  Err();
  EXPECT(heard.lines == 1 && !heard.last.empty());
  char text[2048];
  size_t size = sizeof(text);
  CHECK(D(cuLogsDumpToMemory)(&at, text, &size, 0));
  EXPECT(size == heard.last.size() + 1 && std::strlen(text) == size && text[size - 1] == '\n');
  EXPECT(std::string(text, size - 1) == heard.last);
  size = sizeof(text);
  CHECK(D(cuLogsDumpToMemory)(&at, text, &size, 0));  // nothing since
  EXPECT(size == 0);
  Err();
  Err();
  size = 4;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLogsDumpToMemory)(&at, text, &size, 0));
  EXPECT(size == 0);
  CHECK(D(cuLogsUnregisterCallback)(handle));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLogsUnregisterCallback)(handle));
  EXPECT(heard.lines == 3);
  Err();
  EXPECT(heard.lines == 3);
  char path[] = "/tmp/farcall-logs-XXXXXX";
  EXPECT(mkstemp(path) >= 0);
  CHECK(D(cuLogsDumpToFile)(&at, path, 0));
  FILE* file = std::fopen(path, "r");
  int lines = 0;
  for (int c; (c = std::fgetc(file)) != EOF;) lines += c == '\n';
  std::fclose(file);
  std::remove(path);
  EXPECT(lines == 3);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLogsDumpToFile)(&at, nullptr, 0));
}

void CoreDumps() {
  bool on = true, off = false;
  size_t size = sizeof(on);
  CHECK(D(cuCoredumpGetAttribute)(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
  EXPECT(!on);
  on = true;
  CODE(CUDA_ERROR_NOT_SUPPORTED,
       D(cuCoredumpSetAttribute)(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size));
  CHECK(D(cuCoredumpSetAttributeGlobal)(CU_COREDUMP_ENABLE_ON_EXCEPTION, &off, &size));
  char name[] = "core.of.mine", got[64] = "";
  size = sizeof(name);
  CHECK(D(cuCoredumpSetAttribute)(CU_COREDUMP_FILE, name, &size));
  size = 0;
  CHECK(D(cuCoredumpGetAttribute)(CU_COREDUMP_FILE, nullptr, &size));
  EXPECT(size == sizeof(name));
  size = 3;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuCoredumpGetAttribute)(CU_COREDUMP_FILE, got, &size));
  size = sizeof(got);
  CHECK(D(cuCoredumpGetAttribute)(CU_COREDUMP_FILE, got, &size));
  EXPECT(std::strcmp(got, name) == 0);
  size = sizeof(got);
  CHECK(D(cuCoredumpGetAttributeGlobal)(CU_COREDUMP_PIPE, got, &size));
  EXPECT(std::strncmp(got, "corepipe.cuda.", 14) == 0);
  int flags = CU_COREDUMP_SKIP_ABORT;
  size = sizeof(flags);
  CHECK(D(cuCoredumpSetAttribute)(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
  flags = 1 << 20;
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuCoredumpSetAttribute)(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
  CHECK(D(cuCoredumpGetAttribute)(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
  EXPECT(flags == CU_COREDUMP_SKIP_ABORT);
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuCoredumpGetAttribute)(static_cast<CUcoredumpSettings>(99), &flags, &size));
}

}  // namespace

void Tools() {
  Logs();
  CoreDumps();
  int state = 0;
  CODE(CUDA_ERROR_NOT_SUPPORTED,
       D(cuCheckpointProcessGetState)(1, reinterpret_cast<CUprocessState*>(&state)));
}
