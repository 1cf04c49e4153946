// SPDX-License-Identifier: Apache-2.0
// farcall-ptxas: takes ptxas's arguments and hands the PTX through as the "cubin". Frameworks that
// compile PTX before they load it (Triton, Inductor, XLA) load PTX with it, which is what a device
// that executes PTX wants.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

// Options of ptxas whose value is a word of its own; all others stand alone or hold it after '='.
constexpr const char* kWithValue[] = {"-arch",
                                      "--gpu-name",
                                      "-maxrregcount",
                                      "--maxrregcount",
                                      "-O",
                                      "--opt-level",
                                      "-e",
                                      "--entry",
                                      "-m",
                                      "--machine",
                                      "-optf",
                                      "--options-file",
                                      "-dlcm",
                                      "--def-load-cache",
                                      "-dscm",
                                      "--def-store-cache",
                                      "-fmad",
                                      "--fmad"};

bool TakesValue(const std::string& word) {
  for (const char* option : kWithValue)
    if (word == option) return true;
  return false;
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "farcall-ptxas: %s\n", why.c_str());
  return 1;
}

// In the form in which ptxas says it, which callers take apart.
int PrintVersion() {
  std::puts("farcall-ptxas: hands PTX through, compiles nothing");
  std::puts("Cuda compilation tools, release 13.0, V13.0.88");
  return 0;
}

bool StartsWith(const std::string& word, const char* start) {
  return word.rfind(start, 0) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string input, output = "elf.o";  // ptxas's own default
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--version" || word == "-V") return PrintVersion();
    if (word == "-o" || word == "--output-file") {
      if (++i == argc) return Fail(word + ": the name of the output is missing");
      output = argv[i];
    } else if (StartsWith(word, "-o=") || StartsWith(word, "--output-file=")) {
      output = word.substr(word.find('=') + 1);
    } else if (TakesValue(word)) {
      ++i;
    } else if (word.empty() || word[0] != '-') {
      if (!input.empty()) return Fail("two inputs, " + input + " and " + word + ": one at a time");
      input = word;
    }
  }
  if (input.empty()) return Fail("no input: give one file of PTX");
  std::ifstream in(input, std::ios::binary);
  std::vector<char> text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.good() && !in.eof()) return Fail(input + ": cannot be read");
  if (std::string(text.begin(), text.end()).find(".version") == std::string::npos)
    return Fail(input + ": no PTX: a .version directive is missing");
  text.push_back(
      '\0');  // what loads the file may hand it to the driver as it is, which reads up to here
  std::ofstream out(output, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  return out.good() ? 0 : Fail(output + ": cannot be written");
}
