// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include "trace.h"

sigjmp_buf g_back;

namespace {

void GoBack(int) {
  siglongjmp(g_back, 1);
}

}  // namespace

int main() {
  signal(SIGSEGV, GoBack);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  TraceDevices();
  TraceMemory();
  TraceCopies();
  TraceArrays();
  TraceTextures();
  TraceStreams();
  TraceKernels();
  TraceLaunches();
  TraceGraphs();
  TraceGraphNodes();
  TracePools();
  TraceLibraries();
  TraceOdds();
  TraceReset();
  std::printf("end\n");
}
