// SPDX-License-Identifier: Apache-2.0
// Without libFuzzer: feeds every file named (folders are walked) to the target once, so corpora are
// tests in every build.
//   replay [--reach PERCENT] FILE|FOLDER...   --reach: fails if the target, which must count, has
//   reached less
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" __attribute__((weak)) double ReachedPercent();

namespace {

int Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s cannot be read\n", path.c_str());
    std::exit(1);
  }
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  int first = 1;
  double wanted = 0;
  if (argc > 2 && std::strcmp(argv[1], "--reach") == 0) {
    wanted = std::atof(argv[2]);
    first = 3;
  }
  int count = 0;
  for (int i = first; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      count += Replay(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file()) count += Replay(entry.path());
  }
  std::fprintf(stderr, "replayed %d inputs\n", count);
  if (wanted > 0 && (ReachedPercent == nullptr || ReachedPercent() < wanted)) {
    std::fprintf(stderr, "less than %.1f %% is reached\n", wanted);
    return 1;
  }
  return count > 0 ? 0 : 1;
}
