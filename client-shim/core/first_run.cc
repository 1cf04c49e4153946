// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/first_run.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "proto/printable.h"

namespace farcall::client {

std::atomic<size_t> g_first_runs{0};

namespace {

struct FirstRuns {
  std::mutex mutex;
  std::vector<std::string> names;  // the oldest first
};

FirstRuns& TheFirstRuns() {
  static auto* runs = new FirstRuns;
  return *runs;
}

// "_Z3addPfS_" is "add", "_Z3addIfEvPT_" is "add<float>".
std::string ShortName(const std::string& name) {
  constexpr size_t kMaxName = 32;  // the whole line is to fit into 80 columns or little more
  std::string text = name;
  int status = 0;
  if (char* demangled = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status)) {
    text = demangled;
    std::free(demangled);
    if (const size_t end = text.find('('); end != std::string::npos && end != 0) text.resize(end);
    constexpr std::string_view kVoid = "void ";  // what templates begin with
    if (text.compare(0, kVoid.size(), kVoid) == 0) text.erase(0, kVoid.size());
  }
  if (text.size() > kMaxName) text.replace(kMaxName - 3, std::string::npos, "...");
  return Printable(text, kMaxName);
}

}  // namespace

void NoteFirstRun(const std::string& name) {
  FirstRuns& runs = TheFirstRuns();
  std::lock_guard lock(runs.mutex);
  runs.names.push_back(name);
  g_first_runs.store(runs.names.size(), std::memory_order_relaxed);
}

std::string FirstRunLine(const std::vector<std::string>& names) {
  if (names.size() != 1)
    return "the CPU device compiles and runs " + std::to_string(names.size()) +
           " kernels for the first time";
  return "the CPU device compiles and runs " + ShortName(names.front()) + " for the first time";
}

void FirstRunWait::Begin() {
  FirstRuns& runs = TheFirstRuns();
  {
    std::lock_guard lock(runs.mutex);
    names_ = runs.names;
  }
  if (!names_.empty()) step_.emplace(FirstRunLine(names_));
}

void FirstRunWait::End() {
  step_.reset();
  FirstRuns& runs = TheFirstRuns();
  std::lock_guard lock(runs.mutex);
  for (const std::string& name : names_) {
    const auto found = std::find(runs.names.begin(), runs.names.end(), name);
    if (found != runs.names.end()) runs.names.erase(found);
  }
  g_first_runs.store(runs.names.size(), std::memory_order_relaxed);
}

}  // namespace farcall::client
