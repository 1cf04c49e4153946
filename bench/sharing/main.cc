// SPDX-License-Identifier: Apache-2.0
// sharing [--json FILE] [--scale PART]: the simulated figures of docs/internals/sharing.md, as a
// table and as JSON.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/sharing/experiments.h"
#include "bench/sharing/goals.h"

namespace {

using farcall::sharing::Figure;

void Print(const std::vector<Figure>& figures) {
  std::string trial;
  for (const Figure& figure : figures) {
    std::string now = figure.group + ", " + figure.trial + ", " + figure.policy;
    if (now != trial) {
      std::printf("%s\n", now.c_str());
      trial = now;
    }
    std::printf("    %-32s %10.4f %s\n", figure.name.c_str(), figure.value, figure.unit.c_str());
  }
  std::fflush(stdout);
}

bool Write(const std::string& path, const std::vector<Figure>& figures) {
  std::ofstream file(path);
  file << "{\"simulated\": true, \"figures\": [";
  for (size_t i = 0; i < figures.size(); ++i) {
    const Figure& figure = figures[i];
    file << (i == 0 ? "" : ",") << "\n  {\"group\": \"" << figure.group << "\", \"trial\": \""
         << figure.trial << "\", \"policy\": \"" << figure.policy << "\", \"name\": \""
         << figure.name << "\", \"value\": " << figure.value << ", \"unit\": \"" << figure.unit
         << "\"}";
  }
  file << "\n]}\n";
  file.close();
  return file.good();
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  double scale = 1;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    bool has_value = i + 1 < argc;
    if (flag == "--json" && has_value) {
      json = argv[++i];
    } else if (flag == "--scale" && has_value && std::atof(argv[i + 1]) > 0) {
      scale = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "sharing: '%s': --json FILE or --scale PART (such as 0.1)\n",
                   flag.c_str());
      return 2;
    }
  }
  std::printf("Simulated: perfect timers, no interference. Only a card can tell what it does.\n\n");
  std::vector<Figure> all;
  for (auto measure : {farcall::sharing::MeasureShares, farcall::sharing::MeasureAlone,
                       farcall::sharing::MeasureCaps, farcall::sharing::MeasurePriority,
                       farcall::sharing::MeasureMix, farcall::sharing::MeasureSwap}) {
    std::vector<Figure> figures = measure(scale);
    Print(figures);
    all.insert(all.end(), figures.begin(), figures.end());
  }
  farcall::sharing::PrintGoals(farcall::sharing::JudgeGoals(all));
  if (!json.empty() && !Write(json, all)) {
    std::fprintf(stderr, "sharing: %s: cannot be written\n", json.c_str());
    return 1;
  }
  return 0;
}
