// SPDX-License-Identifier: Apache-2.0
// A cuBLAS and a cuFFT whose slow functions take their time and end the process if an object of
// theirs is used meanwhile, or after its end.
#include <stdlib.h>
#include <time.h>

enum { kMaxObjects = 64, kUnknown = 0, kReady, kBusy, kEnded };

static volatile int states[kMaxObjects];
static volatile int made;

static int Make(void) {
  const int object = ++made;
  if (object >= kMaxObjects) abort();
  states[object] = kReady;
  return object;
}

static void Use(int object) {
  if (object <= 0 || object >= kMaxObjects || states[object] != kReady) abort();
}

static void Sleep(void) {
  const struct timespec while_others_go_on = {0, 300000000};
  nanosleep(&while_others_go_on, NULL);
}

int cublasCreate_v2(void** handle) {
  *handle = (void*)(long)Make();
  return 0;
}
int cublasSetStream_v2(void* handle, void* stream) {
  (void)stream;
  Use((int)(long)handle);
  return 0;
}
int cublasSswap_v2(void* handle, int n, float* x, int incx, float* y, int incy) {
  (void)n, (void)x, (void)incx, (void)y, (void)incy;
  Use((int)(long)handle);
  return 0;
}
int cublasDestroy_v2(void* handle) {
  Use((int)(long)handle);
  states[(int)(long)handle] = kBusy;
  Sleep();
  states[(int)(long)handle] = kEnded;
  return 0;
}

int cufftCreate(int* plan) {
  *plan = Make();
  return 0;
}
int cufftSetStream(int plan, void* stream) {
  (void)stream;
  Use(plan);
  return 0;
}
int cufftMakePlan1d(int plan, int nx, int type, int batch, size_t* bytes) {
  (void)nx, (void)type, (void)batch;
  Use(plan);
  states[plan] = kBusy;
  Sleep();
  states[plan] = kReady;
  *bytes = 4711;
  return 0;
}
int cufftExecC2C(int plan, void* in, void* out, int direction) {
  (void)in, (void)out, (void)direction;
  Use(plan);
  return 0;
}
int cufftDestroy(int plan) {
  Use(plan);
  states[plan] = kEnded;
  return 0;
}
