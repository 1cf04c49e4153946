// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/client_environment.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/programs/thin_libraries.h"
#include "client-shim/core/settings/settings.h"

namespace farcall::cli {

std::string OwnPath() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length > 0) return std::string(path, static_cast<size_t>(length));
  // No /proc: what execve was given, if that is a path.
  const char* given = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  bool found = given != nullptr && realpath(given, path) != nullptr;
  return found ? std::string(path) : std::string();
}

std::string DriverLibraryFolder() {
  std::string path = OwnPath();
  for (int up = 0; up < 2; ++up)
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  path += "/lib/farcall";
  return access((path + "/libcuda.so.1").c_str(), R_OK) == 0 ? path : std::string();
}

namespace {

std::string Absolute(const std::string& file) {
  return file.empty() ? "" : std::filesystem::absolute(file).string();
}

// Whether the nvcc on PATH has its headers beside it.
bool HasToolkit() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/nvcc").c_str(), X_OK) == 0 &&
        access((folder + "/../include/cuda_runtime.h").c_str(), R_OK) == 0)
      return true;
  return false;
}

// For programs that look for CUDA's headers to compile with (CuPy) where there are none: a folder
// that stands for the server's. Empty: there are some, or the user has said where.
std::string HeadersFolder() {
  for (const char* name : {"CUDA_PATH", "CUDA_HOME"})
    if (std::getenv(name) != nullptr) return "";
  if (HasToolkit()) return "";
  std::string folder = DriverLibraryFolder() + "/../../share/farcall/cuda";
  char* real = realpath(folder.c_str(), nullptr);
  folder = real == nullptr ? "" : real;
  free(real);
  return folder;
}

// XLA's switch, unless the user has set it or keeps switches in a file.
std::string XlaDataFlags(const std::string& endpoint) {
  const char* before = std::getenv("XLA_FLAGS");
  std::string flags = before == nullptr ? "" : before;
  const std::string folder = CudaDataRoot(endpoint);
  const size_t first = flags.find_first_not_of(" \t\n");
  if (folder.empty() || flags.find("--xla_gpu_cuda_data_dir") != std::string::npos ||
      (first != std::string::npos && flags[first] != '-'))
    return "";
  return flags + (flags.empty() ? "" : " ") + "--xla_gpu_cuda_data_dir=" + folder;
}

}  // namespace

std::string CudaDataRoot(std::string endpoint) {
  const auto settings = client::Settings::Load(client::Settings::Files());
  const std::string cache = settings.CacheFolder();
  if (cache.empty() || settings.Find("libdevice").value == "0") return "";
  if (endpoint.empty()) {
    const Result<client::Setting> set = settings.FindEndpoint();
    if (set.ok()) endpoint = set->value;
  }
  const Result<std::string> token = settings.FindToken();  // the program will say so
  return client::CudaDataFolder(
      cache, client::ServerCacheScope(endpoint, token.ok() ? *token : std::string()));
}

namespace {

// The program may change its folder before it connects.
std::vector<std::pair<const char*, std::string>> TlsFilesOf(const ClientSettings& settings) {
  return {{"FARCALL_CA", Absolute(settings.ca)},
          {"FARCALL_CERT", Absolute(settings.cert)},
          {"FARCALL_KEY", Absolute(settings.key)}};
}

}  // namespace

void UseTlsFiles(const ClientSettings& settings) {
  for (const auto& [name, file] : TlsFilesOf(settings))
    if (!file.empty()) setenv(name, file.c_str(), 1);
}

void AddTlsFlags(CLI::App* command, ClientSettings* settings) {
  command->add_option(
      "--ca", settings->ca,
      "PEM file of the authorities that sign a tls:// server's certificate (default: "
      "the system's)");
  command->add_option("--cert", settings->cert, "PEM file of the client's own certificate");
  command->add_option("--key", settings->key, "PEM file of its key");
}

std::vector<std::pair<std::string, std::string>> ClientEnvironment(const ClientSettings& settings) {
  std::vector<std::pair<std::string, std::string>> environment;
  auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) environment.emplace_back(name, value);
  };
  add("FARCALL_ENDPOINT", settings.endpoint);
  if (settings.is_private) {
    add("FARCALL_PRIVATE_SERVER", settings.endpoint);
    setenv("FARCALL_PRIVATE_SERVER", settings.endpoint.c_str(), 1);  // for ServerScope here
  }
  add("FARCALL_MEM", settings.quota.mem);
  add("FARCALL_SHARE", settings.quota.share);
  add("FARCALL_LIMIT", settings.quota.limit);
  add("FARCALL_PRIORITY", settings.quota.priority);
  if (settings.quota.net != "0") add("FARCALL_NET", settings.quota.net);
  add("FARCALL_COUNT", settings.count);
  add("FARCALL_CLAIM", settings.claim);
  add("FARCALL_STATS", settings.stats);
  for (const auto& [name, file] : TlsFilesOf(settings)) add(name, file);
  const char* before = std::getenv("LD_LIBRARY_PATH");
  std::string path = DriverLibraryFolder();
  if (settings.thin) path = ThinLibraryFolder() + ":" + path;
  // Told either way: what this starts may itself start `farcall run`.
  add("FARCALL_THIN", settings.thin ? "1" : "0");
  if (before != nullptr && *before != '\0') path += ":" + std::string(before);
  add("LD_LIBRARY_PATH", path);
  if (settings.thin) {
    add("CUDA_PATH", HeadersFolder());
    add("XLA_FLAGS", XlaDataFlags(settings.endpoint));
  }
  return environment;
}

std::string AuditorVariable() {
  std::string path = DriverLibraryFolder() + "/libfarcall_audit.so";
  if (access(path.c_str(), R_OK) != 0) return "";
  const char* before = std::getenv("LD_AUDIT");
  if (before != nullptr && *before != '\0') path += ":" + std::string(before);
  return path;
}

void AddAuditor() {
  const std::string value = AuditorVariable();
  if (!value.empty()) setenv("LD_AUDIT", value.c_str(), 1);
}

}  // namespace farcall::cli
