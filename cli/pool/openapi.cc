// SPDX-License-Identifier: Apache-2.0
// `farcall pool openapi`: what REST has, for generators of clients.
#include <cstdio>

#include "cli/pool/base/commands.h"
#include "pool/rest/rest.h"

namespace farcall::cli {

void AddPoolOpenApi(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("openapi", "Prints the REST interface of a controller as OpenAPI");
  command->footer("Example: farcall pool openapi > pool.json");
  command->callback([&exit_code] {
    std::printf("%s\n", pool::OpenApi().c_str());
    exit_code = 0;
  });
}

}  // namespace farcall::cli
