// SPDX-License-Identifier: Apache-2.0
// graph_checks CASE: graphs made node by node and by capture, asked, changed and launched through a
// remote client. Prints "ok CASE" or what went wrong.
#include <cstring>

#include "graph_checks.h"

int main(int argc, char** argv) {
  struct Case {
    const char* name;
    void (*run)();
  };
  static const Case kCases[] = {{"graph-nodes", ExplicitNodes},
                                {"graph-copies", CapturedCopies},
                                {"graph-host-nodes", HostNodes},
                                {"graph-captured-nodes", CapturedNodes},
                                {"graph-clones", ClonesAndChildren},
                                {"graph-updates", Updates},
                                {"graph-memory", MemoryNodes},
                                {"graph-conditionals", Conditionals},
                                {"graph-user-objects", UserObjects},
                                {"graph-events", Events},
                                {"graph-errors", Errors},
                                {"graph-boxes", Boxes},
                                {"graph-dot", Dot},
                                {"graph-memory-operations", MemoryOperations},
                                {"graph-in-capture", LaunchedInCapture}};
  for (const Case& one : kCases) {
    if (argc == 2 && std::strcmp(argv[1], one.name) == 0) {
      one.run();
      std::printf("ok %s\n", one.name);
      return 0;
    }
  }
  std::fprintf(stderr, "usage: graph_checks CASE\n");
  return 2;
}
