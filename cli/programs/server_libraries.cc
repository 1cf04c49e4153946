// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/server_libraries.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cli/programs/client_environment.h"
#include "client-shim/core/channel/library_channel.h"
#include "proto/codec.h"

namespace farcall::cli {

namespace {

constexpr int kPatienceMs = 60000;

struct Known {
  LibraryId id;
  const char* name;
};
constexpr Known kKnown[] = {{LibraryId::kCublas, "cublas"},      {LibraryId::kCublasLt, "cublasLt"},
                            {LibraryId::kCusolver, "cusolver"},  {LibraryId::kCusparse, "cusparse"},
                            {LibraryId::kCufft, "cufft"},        {LibraryId::kCurand, "curand"},
                            {LibraryId::kCudnn, "cudnn"},        {LibraryId::kNvrtc, "nvrtc"},
                            {LibraryId::kNvjitlink, "nvJitLink"}};

// "": the server has no such library.
std::string VersionOf(const client::LibraryChannel& channel, LibraryId id) {
  if (channel.server_lacks(id)) return {};
  LibraryHeader header{};
  header.library = static_cast<uint8_t>(id);
  header.function = kLibraryOpen;  // no major: the newest
  std::string version;
  channel.ask(
      &header, sizeof(header), nullptr, client::StreamUse::kNone,
      [](void* user, const void* bytes, size_t count) {
        Reader in(std::span(static_cast<const std::byte*>(bytes), count));
        const auto status = in.Get<int32_t>();
        in.Get<uint32_t>();
        std::span<const std::byte> said = in.GetBytes();
        int64_t number = 0;
        if (said.size() == sizeof(number)) std::memcpy(&number, said.data(), sizeof(number));
        if (in.ok() && status == 0) *static_cast<std::string*>(user) = LibraryVersionText(number);
      },
      &version);
  return version;
}

[[noreturn]] void AskInChild(int out) {
  void* libcuda = dlopen((DriverLibraryFolder() + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  auto get = libcuda == nullptr ? nullptr
                                : reinterpret_cast<int (*)(const void**, const void*)>(
                                      dlsym(libcuda, "cuGetExportTable"));
  const void* table = nullptr;
  if (get == nullptr || get(&table, client::kLibraryChannelId) != 0) _exit(1);
  auto channel = static_cast<const client::LibraryChannel*>(table);
  if (channel->bytes != sizeof(*channel) || channel->begin() != 0) _exit(1);
  for (const Known& known : kKnown) {
    const std::string line = std::string(known.name) + " " + VersionOf(*channel, known.id) + "\n";
    if (write(out, line.data(), line.size()) < 0) _exit(1);
  }
  _exit(0);
}

std::string ReadAll(int in) {
  std::string text;
  char piece[512];
  struct pollfd ready = {in, POLLIN, 0};
  for (;;) {
    const int polled = poll(&ready, 1, kPatienceMs);
    if (polled < 0 && errno == EINTR) continue;
    const ssize_t got = polled <= 0 ? 0 : read(in, piece, sizeof(piece));
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
  }
}

}  // namespace

std::vector<ServerLibrary> AskServerLibraries(
    const std::vector<std::pair<std::string, std::string>>& environment) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    AskInChild(ends[1]);
  }
  close(ends[1]);
  std::istringstream lines(child < 0 ? "" : ReadAll(ends[0]));
  close(ends[0]);
  if (child > 0) {
    kill(child, SIGKILL);  // it has said all, or will not
    waitpid(child, nullptr, 0);
  }
  std::vector<ServerLibrary> libraries;
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    libraries.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return libraries;
}

std::string LibraryLine(const ServerLibrary& library) {
  return library.name + " " + (library.version.empty() ? "is missing" : library.version);
}

nlohmann::ordered_json LibraryList(const std::vector<ServerLibrary>& libraries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ServerLibrary& library : libraries)
    list.push_back({{"name", library.name}, {"version", library.version}});
  return list;
}

}  // namespace farcall::cli
