// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/config.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client-shim/core/log.h"

namespace farcall::client {

namespace {

std::string Get(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool ReadFirstLine(const std::string& path, std::string* line) {
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return false;
  char buffer[4096];
  size_t got = std::fread(buffer, 1, sizeof(buffer), file);
  std::fclose(file);
  line->assign(buffer, got);
  line->resize(line->find_first_of("\r\n") == std::string::npos ? line->size()
                                                                : line->find_first_of("\r\n"));
  return true;
}

void LoadLog() {
  static constexpr const char* kLevels[] = {"off", "error", "warn", "info", "debug", "trace"};
  std::string level = Get("FARCALL_LOG");
  bool known = level.empty();
  for (int i = 0; i < 6; ++i) {
    if (level == kLevels[i]) {
      g_log_level.store(i, std::memory_order_relaxed);
      known = true;
    }
  }
  if (!known) {
    Log(LogLevel::kWarn, "FARCALL_LOG=%s is no level; use off, error, warn, info, debug or trace",
        level.c_str());
  }
  std::string file = Get("FARCALL_LOG_FILE");
  if (!SetLogFile(file.c_str())) {
    Log(LogLevel::kWarn, "FARCALL_LOG_FILE=%s cannot be opened; logging to stderr", file.c_str());
  }
}

bool LoadFlag(const char* name, Config* config) {
  std::string value = Get(name);
  if (value.empty() || value == "0") return false;
  if (value == "1") return true;
  config->error = std::string(name) + "=" + value + " must be 0 or 1";
  return false;
}

void LoadQuota(Config* config) {
  std::string mem = Get("FARCALL_MEM"), share = Get("FARCALL_SHARE"), limit = Get("FARCALL_LIMIT");
  if (!mem.empty() && !ParseBytes(mem, &config->quota.memory_bytes)) {
    config->error = "FARCALL_MEM=" + mem + " is no size; write 4GiB or 512MiB";
  }
  if (!share.empty() && !ParseMilli(share, &config->quota.share_milli)) {
    config->error = "FARCALL_SHARE=" + share + " is no share; write 30%";
  }
  if (!limit.empty() && !ParseMilli(limit, &config->quota.limit_milli)) {
    config->error = "FARCALL_LIMIT=" + limit + " is no share; write 50%";
  }
  std::string priority = Get("FARCALL_PRIORITY");
  if (priority == "high") {
    config->quota.priority = 1;
  } else if (priority == "low") {
    config->quota.priority = 2;
  } else if (!priority.empty() && priority != "normal") {
    config->error = "FARCALL_PRIORITY=" + priority + " must be high, normal or low";
  }
}

Config* Load() {
  auto* config = new Config;
  LoadLog();
  config->endpoint = Get("FARCALL_ENDPOINT");
  config->token = Get("FARCALL_TOKEN");
  std::string token_file = Get("FARCALL_TOKEN_FILE");
  if (config->token.empty() && !token_file.empty() && !ReadFirstLine(token_file, &config->token)) {
    config->error = "FARCALL_TOKEN_FILE=" + token_file + " cannot be read";
  }
  config->vgpu = Get("FARCALL_VGPU");
  config->stats_file = Get("FARCALL_STATS");
  config->sync = LoadFlag("FARCALL_SYNC", config);
  config->cache_dir = Get("FARCALL_CACHE_DIR");
  if (config->cache_dir.empty()) {
    std::string base = Get("XDG_CACHE_HOME");
    if (base.empty() && !Get("HOME").empty()) base = Get("HOME") + "/.cache";
    if (!base.empty()) config->cache_dir = base + "/farcall";
  }
  LoadQuota(config);
  return config;
}

}  // namespace

const Config& GetConfig() {
  static const Config* config = Load();
  return *config;
}

bool ParseBytes(const std::string& text, uint64_t* bytes) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(value >= 0) || !std::isfinite(value)) return false;
  struct Unit {
    const char* name;
    double scale;
  };
  static constexpr Unit kUnits[] = {{"", 1},
                                    {"B", 1},
                                    {"KiB", 1024.0},
                                    {"MiB", 1048576.0},
                                    {"GiB", 1073741824.0},
                                    {"TiB", 1099511627776.0},
                                    {"K", 1024.0},
                                    {"M", 1048576.0},
                                    {"G", 1073741824.0},
                                    {"KB", 1e3},
                                    {"MB", 1e6},
                                    {"GB", 1e9}};
  for (const Unit& unit : kUnits) {
    if (std::strcmp(end, unit.name) == 0 && value * unit.scale < 9e18) {
      *bytes = static_cast<uint64_t>(value * unit.scale);
      return true;
    }
  }
  return false;
}

bool ParseMilli(const std::string& text, uint32_t* milli) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(value >= 0)) return false;
  if (std::strcmp(end, "%") == 0) {
    value /= 100;
  } else if (*end != '\0') {
    return false;
  }
  if (value > 1) return false;
  *milli = static_cast<uint32_t>(std::lround(value * 1000));
  return true;
}

}  // namespace farcall::client
