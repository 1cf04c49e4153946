// SPDX-License-Identifier: Apache-2.0
// Threads are inside the libraries nearly all of the time while children are forked. Each child
// calls the same functions, and has to end: a lock that a thread of the parent held is nobody's
// there. Prints the number of children that did not end.
#define _GNU_SOURCE
#include <cublas_v2.h>
#include <cuda.h>
#include <nvrtc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static cublasHandle_t g_handle;
static CUcontext g_context;
static CUdeviceptr g_memory;
static volatile int g_stop;

static void Check(int status, const char* what) {
  if (status == 0) return;
  fprintf(stderr, "%s: %d\n", what, status);
  exit(2);
}

static int CallAll(void) {
  const float one = 1;
  nvrtcProgram program = NULL;
  cublasHandle_t own = NULL;
  int failed = cublasSscal(g_handle, 4, &one, (float*)g_memory, 1) != 0;
  failed += cublasCreate(&own) != 0;
  if (own != NULL) cublasDestroy(own);
  failed += nvrtcCreateProgram(&program, "int x;", "a", 0, NULL, NULL) != 0;
  if (program != NULL) nvrtcDestroyProgram(&program);
  return failed;
}

static void* Work(void* which) {
  const float one = 1;
  Check(cuCtxSetCurrent(g_context), "cuCtxSetCurrent");
  while (!g_stop) {
    if (which == NULL) {
      CUdeviceptr memory = 0;  // changes the table that cublasSscal looks its address up in
      Check(cuMemAlloc(&memory, 256), "cuMemAlloc");
      Check(cuMemFree(memory), "cuMemFree");
      Check(cublasSscal(g_handle, 4, &one, (float*)g_memory, 1), "cublasSscal");
    } else {
      nvrtcProgram program = NULL;
      Check(nvrtcCreateProgram(&program, "int x;", "a", 0, NULL, NULL), "nvrtcCreateProgram");
      Check(nvrtcDestroyProgram(&program), "nvrtcDestroyProgram");
    }
  }
  return NULL;
}

static void InChild(void) {
  alarm(20);  // its signal ends the child: it hung
  const int failed = CallAll();
  nvrtcProgram program = NULL;
  nvrtcCreateProgram(&program, "int x;", "a", 0, NULL, NULL);
  // A program may be made; nothing else works.
  _exit(failed == 2 && nvrtcCompileProgram(program, 0, NULL) != NVRTC_SUCCESS ? 0 : 1);
}

int main(int count, char** arguments) {
  const int children = count > 1 ? atoi(arguments[1]) : 200;
  int hung = 0;
  int wrong = 0;
  pthread_t threads[4];
  Check(cuInit(0), "cuInit");
  Check(cuDevicePrimaryCtxRetain(&g_context, 0), "cuDevicePrimaryCtxRetain");
  Check(cuCtxSetCurrent(g_context), "cuCtxSetCurrent");
  Check(cublasCreate(&g_handle), "cublasCreate");
  Check(cuMemAlloc(&g_memory, 4096), "cuMemAlloc");
  Check(CallAll(), "a call");
  for (long i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, Work, (void*)(i % 2));
  for (int i = 0; i < children && hung == 0; ++i) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) InChild();
    waitpid(child, &status, 0);
    hung += WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    wrong += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  g_stop = 1;
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  printf("[%d, %d]\n", hung, wrong);
  return 0;
}
