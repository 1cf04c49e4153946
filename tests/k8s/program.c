// SPDX-License-Identifier: Apache-2.0
// What test pods run: adds two vectors by PTX, and tells the claim's memory. It finds CUDA's driver
// as any program does.
//
//   program         tells once
//   program stay    and goes on computing, a line for each round, until it is ended
//   program work    the same without rest, and with 64 MiB of device memory
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kCount = 4096 };

static const char kAdd[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 sum) {\n"
    "  .reg .u64 %a, %b, %sum, %offset;\n"
    "  .reg .u32 %block, %threads, %thread, %i;\n"
    "  .reg .f32 %x, %y;\n"
    "  ld.param.u64 %a, [a];\n  ld.param.u64 %b, [b];\n  ld.param.u64 %sum, [sum];\n"
    "  mov.u32 %block, %ctaid.x;\n  mov.u32 %threads, %ntid.x;\n  mov.u32 %thread, %tid.x;\n"
    "  mad.lo.u32 %i, %block, %threads, %thread;\n"
    "  mul.wide.u32 %offset, %i, 4;\n"
    "  add.u64 %a, %a, %offset;\n  add.u64 %b, %b, %offset;\n  add.u64 %sum, %sum, %offset;\n"
    "  ld.global.f32 %x, [%a];\n  ld.global.f32 %y, [%b];\n"
    "  add.f32 %x, %x, %y;\n  st.global.f32 [%sum], %x;\n  ret;\n}\n";

static void* library;

static void Must(const char* what, int code) {
  if (code == 0) return;
  printf("%s: error %d\n", what, code);
  exit(1);
}

static void* Find(const char* name) {
  void* found = dlsym(library, name);
  if (found != NULL) return found;
  printf("no %s\n", name);
  exit(1);
}

#define CALL(name, types, ...) Must(#name, ((int(*) types)Find(#name))(__VA_ARGS__))

static void Add(void) {
  static float a[kCount], b[kCount], sum[kCount];
  uint64_t device[3];
  void *module, *kernel, *arguments[] = {&device[0], &device[1], &device[2]};
  for (int i = 0; i < kCount; ++i) {
    a[i] = (float)i;
    b[i] = 0.25f * (float)i;
  }
  CALL(cuModuleLoadData, (void**, const void*), &module, kAdd);
  CALL(cuModuleGetFunction, (void**, void*, const char*), &kernel, module, "add");
  for (int i = 0; i < 3; ++i) CALL(cuMemAlloc_v2, (uint64_t*, size_t), &device[i], sizeof(a));
  CALL(cuMemcpyHtoD_v2, (uint64_t, const void*, size_t), device[0], a, sizeof(a));
  CALL(cuMemcpyHtoD_v2, (uint64_t, const void*, size_t), device[1], b, sizeof(b));
  CALL(cuLaunchKernel,
       (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
        void**),
       kernel, kCount / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL);
  CALL(cuMemcpyDtoH_v2, (void*, uint64_t, size_t), sum, device[2], sizeof(sum));
  for (int i = 0; i < 3; ++i) CALL(cuMemFree_v2, (uint64_t), device[i]);
  CALL(cuModuleUnload, (void*), module);
  for (int i = 0; i < kCount; ++i)
    if (sum[i] != a[i] + b[i]) {
      printf("element %d is %f\n", i, sum[i]);
      exit(1);
    }
}

static void TellClaim(void) {
  char line[512];
  FILE* settings = fopen("/etc/farcall/config.toml", "r");
  while (settings != NULL && fgets(line, sizeof(line), settings) != NULL)
    if (strncmp(line, "claim = ", 8) == 0) fputs(line, stdout);
  if (settings != NULL) fclose(settings);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) {
    puts("no libcuda.so.1");
    return argc > 1 ? 1 : 0;
  }
  void* context;
  size_t free_bytes, total_bytes;
  char name[128];
  CALL(cuInit, (unsigned), 0);
  CALL(cuDeviceGetName, (char*, int, int), name, sizeof(name), 0);
  CALL(cuDevicePrimaryCtxRetain, (void**, int), &context, 0);
  CALL(cuCtxSetCurrent, (void*), context);
  CALL(cuMemGetInfo_v2, (size_t*, size_t*), &free_bytes, &total_bytes);
  Add();
  printf("device %s\n", name);
  printf("memory %zu\n", total_bytes);
  TellClaim();
  printf("sums %d correct\n", kCount);
  const int works = argc > 1 && strcmp(argv[1], "work") == 0;
  uint64_t kept;
  if (works) CALL(cuMemAlloc_v2, (uint64_t*, size_t), &kept, 64 << 20);
  if (works) CALL(cuMemsetD8_v2, (uint64_t, unsigned char, size_t), kept, 1, 64 << 20);
  for (int round = 1; works || (argc > 1 && strcmp(argv[1], "stay") == 0); ++round) {
    Add();
    printf("round %d\n", round);
    usleep((works ? 1 : 200) * 1000);
  }
  return 0;
}
