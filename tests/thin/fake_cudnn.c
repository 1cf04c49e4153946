// SPDX-License-Identifier: Apache-2.0
// A cuDNN that computes nothing and writes down what its backend API is told, a line each, into
// FARCALL_FAKE_LOG. Engine 13 is refused when a plan of it is finalised, engine 14 when one is run.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTensor = 17, kEngine = 2, kConfig = 3, kPlan = 5, kPack = 16, kMax = 64 };

struct Descriptor {
  int type;
  int is_final;
  int is_bad;
  int64_t engine;
  int64_t ids[kMax];
  void* pointers[kMax];
  int64_t count;
};

static void Say(const char* line) {
  const char* path = getenv("FARCALL_FAKE_LOG");
  FILE* file = path == NULL ? NULL : fopen(path, "a");
  if (file == NULL) return;
  fprintf(file, "%s\n", line);
  fclose(file);
}

int cudnnGetProperty(int type, int* value) {
  *value = type == 0 ? 9 : 0;
  return 0;
}
#ifndef FAKE_VERSION
#define FAKE_VERSION 90000
#endif
size_t cudnnGetVersion(void) {
  return FAKE_VERSION;
}
size_t cudnnGetCudartVersion(void) {
  return 13000;
}
size_t cudnnGetMaxDeviceVersion(void) {
  return 1200;
}
void cudnnGetLastErrorString(char* text, size_t bytes) {
  snprintf(text, bytes, "the fake refuses it");
}
int cudnnCreate(void** handle) {
  *handle = malloc(16);
  return 0;
}
int cudnnDestroy(void* handle) {
  free(handle);
  return 0;
}
int cudnnSetStream(void* handle, void* stream) {
  return handle == NULL && stream == NULL;
}

int cudnnBackendInitialize(void* of) {
  return of == NULL;
}

int cudnnBackendCreateDescriptor(int type, void** made) {
  struct Descriptor* descriptor = calloc(1, sizeof(*descriptor));
  descriptor->type = type;
  *made = descriptor;
  return 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  free(descriptor);
  return 0;
}

int cudnnBackendSetAttribute(void* of, int attribute, int type, int64_t count,
                             const void* elements) {
  struct Descriptor* descriptor = of;
  (void)type;
  if (count < 1 || count > kMax || elements == NULL) return 2000;
  if (descriptor->type == kEngine && attribute == 1301) memcpy(&descriptor->engine, elements, 8);
  if (descriptor->type == kConfig && attribute == 300)
    descriptor->engine = (*(struct Descriptor* const*)elements)->engine;
  if (descriptor->type == kPlan && attribute == 401)
    descriptor->engine = (*(struct Descriptor* const*)elements)->engine;
  if (descriptor->type == kPack && attribute == 1000) {
    memcpy(descriptor->ids, elements, (size_t)count * 8);
    descriptor->count = count;
  }
  if (descriptor->type == kTensor && attribute == 902)
    for (int64_t i = 0; i < count; ++i) descriptor->is_bad |= ((const int64_t*)elements)[i] < 1;
  if (descriptor->type == kPack && attribute == 1001)
    memcpy(descriptor->pointers, elements, (size_t)count * 8);
  return 0;
}

int cudnnBackendFinalize(void* of) {
  struct Descriptor* descriptor = of;
  char line[64];
  snprintf(line, sizeof(line), "finalize %d", descriptor->type);
  Say(line);
  descriptor->is_final = 1;
  if (descriptor->is_bad) return 3002;
  return descriptor->type == kPlan && descriptor->engine == 13 ? 3000 : 0;
}

int cudnnBackendGetAttribute(void* of, int attribute, int type, int64_t requested, int64_t* count,
                             void* elements) {
  (void)of;
  (void)type;
  static const int kNotes[] = {0, 3, 1};
  *count = attribute == 1305 ? 3 : 1;
  if (elements == NULL) return 0;
  if (attribute == 1305)
    memcpy(elements, kNotes, sizeof(int) * (size_t)(requested < 3 ? requested : 3));
  if (attribute == 402) *(int64_t*)elements = 64;
  return 0;
}

int cudnnBackendExecute(void* handle, void* plan_of, void* pack_of) {
  struct Descriptor *plan = plan_of, *pack = pack_of;
  (void)handle;
  char line[1024];
  int at = snprintf(line, sizeof(line), "execute");
  for (int64_t i = 0; i < pack->count; ++i) {
    // 2 is the scalar of the test's graph: it lies on this host.
    if (pack->ids[i] == 2) {
      float value = 0;
      memcpy(&value, pack->pointers[i], sizeof(value));
      at += snprintf(line + at, sizeof(line) - (size_t)at, " 2=%g", value);
    } else {
      at += snprintf(line + at, sizeof(line) - (size_t)at, " %lld@%p", (long long)pack->ids[i],
                     pack->pointers[i]);
    }
  }
  Say(line);
  return plan->engine == 14 ? 3001 : 0;
}
