// SPDX-License-Identifier: Apache-2.0
#include "cli/framework_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "cli/client_environment.h"
#include "cli/elf_symbols.h"

namespace farcall::cli {

namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "" if the file is not there.
std::string Helper(const std::string& name) {
  std::string path = OwnPath();
  for (int up = 0; up < 2; ++up) path.resize(std::min(path.find_last_of('/'), path.size()));
  path += "/libexec/farcall/" + name;
  return access(path.c_str(), R_OK) == 0 ? path : "";
}

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream folders(Variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = folder + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return name;
}

// A sanitizer's runtime refuses to start behind a preloaded library.
bool IsSanitized(const std::string& program) {
  Result<std::vector<std::string>> names = UndefinedSymbols(FindProgram(program));
  if (!names.ok()) return false;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name == "__asan_init" || name == "__tsan_init" || name == "__msan_init";
  });
}

}  // namespace

Variables PtxOnlyEnvironment() {
  Variables variables;
  auto add = [&](const char* name, const std::string& value) {
    if (Variable(name).empty()) variables.emplace_back(name, value);
  };
  std::string ptxas = Helper("farcall-ptxas");
  if (!ptxas.empty()) {
    add("TRITON_PTXAS_PATH", ptxas);
    add("TRITON_PTXAS_BLACKWELL_PATH", ptxas);
    std::string folder = Helper("ptx-only/ptxas");
    folder.resize(folder.find_last_of('/') == std::string::npos ? 0 : folder.find_last_of('/'));
    if (!folder.empty()) variables.emplace_back("PATH", folder + ":" + Variable("PATH"));
  }
  add("CUPY_COMPILE_WITH_PTX", "1");
  std::string xla = Variable("XLA_FLAGS");
  if (xla.find("xla_gpu_autotune_level") == std::string::npos) {
    variables.emplace_back("XLA_FLAGS",
                           xla + (xla.empty() ? "" : " ") + "--xla_gpu_autotune_level=0");
  }
  return variables;
}

Variables DeviceNodeEnvironment(const std::string& program) {
  for (const char* node : {"/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"}) {
    if (access(node, F_OK) == 0) return {};
  }
  std::string library = Helper("libfarcall-device-node.so");
  if (library.empty() || IsSanitized(program)) return {};
  std::string before = Variable("LD_PRELOAD");
  return {{"LD_PRELOAD", before.empty() ? library : before + ":" + library}};
}

}  // namespace farcall::cli
