// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/config.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client-shim/core/report/log.h"
#include "client-shim/core/session/slow_step.h"
#include "client-shim/core/settings/settings.h"
#include "client-shim/core/settings/tls.h"
#include "proto/printable.h"
#include "proto/priority.h"
#include "settings/byte_count.h"
#include "settings/byte_rate.h"
#include "settings/log_line.h"
#include "settings/percent.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/url.h"

namespace farcall::client {

namespace {

std::string Get(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// What is wrong with a setting, in the words of where it came from.
std::string Wrong(const Setting& setting, const char* name, const std::string& right) {
  bool from_file = setting.source.find('/') != std::string::npos;
  return (from_file ? setting.source + ": " + name : setting.source) + "=" + setting.value + " " +
         right;
}

void LoadLog(const Settings& settings) {
  Setting level = settings.Find("log");
  const int number = FarcallLogLevelOf(level.value.c_str());
  if (number >= 0) {
    g_log_level.store(number, std::memory_order_relaxed);
  } else if (!level.value.empty()) {
    Log(LogLevel::kWarn, "%s",
        Wrong(level, "log", "is no level; use off, error, warn, info, debug or trace").c_str());
  }
  Setting progress = settings.Find("progress");
  if (!progress.value.empty() && progress.value != "auto" && progress.value != "off")
    Log(LogLevel::kWarn, "%s", Wrong(progress, "progress", "must be auto or off").c_str());
  SetProgress(progress.value != "off" && LogEnabled(LogLevel::kError));
  Setting file = settings.Find("log_file");
  if (!SetLogFile(file.value.c_str())) {
    Log(LogLevel::kWarn, "%s",
        Wrong(file, "log_file", "cannot be opened; logging to stderr").c_str());
  }
}

bool LoadFlag(const Settings& settings, const char* name, Config* config) {
  Setting setting = settings.Find(name);
  if (setting.value.empty() || setting.value == "0") return false;
  if (setting.value == "1") return true;
  config->error = Wrong(setting, name, "must be 0 or 1");
  return false;
}

bool ParseCount(const std::string& text, uint32_t* count) {
  constexpr uint32_t kMax = 64;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *count);
  return error == std::errc() && end == text.data() + text.size() && *count >= 1 && *count <= kMax;
}

void LoadQuota(const Settings& settings, Config* config) {
  Setting mem = settings.Find("mem"), share = settings.Find("share");
  Setting limit = settings.Find("limit"), priority = settings.Find("priority");
  Setting net = settings.Find("net");
  if (!mem.value.empty() && !ParseByteCount(mem.value, &config->quota.memory_bytes))
    config->error = Wrong(mem, "mem", std::string("is no size; ") + kByteCountForm);
  const uint64_t bytes = config->quota.memory_bytes;
  if (bytes != 0 && bytes < kLeastMemoryBytes)
    config->error = Wrong(mem, "mem", std::string("is ") + kLittleMemory);
  if (!share.value.empty() && !ParseMilli(share.value, &config->quota.share_milli))
    config->error = Wrong(share, "share", std::string("is no share; ") + kPartForm);
  if (!limit.value.empty() && !ParseMilli(limit.value, &config->quota.limit_milli))
    config->error = Wrong(limit, "limit", std::string("is no share; ") + kPartForm);
  if (!net.value.empty() && !ParseByteRate(net.value, &config->quota.net_bytes_per_s))
    config->error = Wrong(net, "net", std::string("is no budget; ") + kByteRateForm);
  if (std::optional<uint8_t> number = PriorityNumber(priority.value))
    config->quota.priority = *number;
  else if (!priority.value.empty())
    config->error = Wrong(priority, "priority", "must be high, normal or low");
}

void LoadCompression(const Settings& settings, Config* config) {
  using Packing = LinkOptions::Packing;
  const Setting setting = settings.Find("compression");
  if (setting.value == "off")
    config->packing = Packing::kOff;
  else if (setting.value == "always")
    config->packing = Packing::kAlways;
  else if (!setting.value.empty() && setting.value != "auto")
    config->error = Wrong(setting, "compression", "must be auto, off or always");
}

void LoadTransport(const Settings& settings, Config* config) {
  LoadCompression(settings, config);
  const Setting congestion = settings.Find("tcp_congestion");
  config->tcp_congestion = congestion.value;
  if (!congestion.value.empty()) {
    if (Status known = CheckCongestionControl(congestion.value); !known.ok())
      config->error = congestion.source + ": " + known.message();
  }
  const Setting setting = settings.Find("transport");
  if (setting.value.empty()) return;
  const std::optional<TransportWish> wish = ParseTransport(setting.value);
  if (!wish) {
    config->error = Wrong(setting, "transport", std::string("must be ") + kTransportNames);
    return;
  }
  config->transport = *wish;
  for (const Target& target : config->targets)
    if (Status fits = CheckTransport(target.endpoint, *wish); !fits.ok())
      config->error = fits.message();
}

// One for each server of the list, or for each claim of the pool.
void LoadTargets(const Settings& settings, Config* config) {
  const Setting claim = settings.Find("claim");
  if (claim.value.empty()) {
    for (std::string& endpoint : SplitEndpoints(config->endpoint))
      config->targets.push_back({std::move(endpoint), ""});
    return;
  }
  if (!config->endpoint.empty() && !IsPoolUrl(config->endpoint)) {
    config->error = Wrong(claim, "claim", "is of a pool, and " + config->endpoint + " is a server");
    return;
  }
  for (std::string& each : SplitEndpoints(claim.value)) {
    const bool is_again = std::any_of(config->targets.begin(), config->targets.end(),
                                      [&](const Target& target) { return target.claim == each; });
    if (each.empty() || is_again) {
      config->error = Wrong(
          claim, "claim", each.empty() ? "has a claim without a name" : "names " + each + " twice");
      return;
    }
    config->targets.push_back({config->endpoint, std::move(each)});
  }
  if (config->targets.size() > kMaxEndpoints)
    config->error =
        Wrong(claim, "claim", "names more than " + std::to_string(kMaxEndpoints) + " claims");
}

Config* Load() {
  auto* config = new Config;
  const Settings settings = Settings::Load(Settings::Files());
  LoadLog(settings);
  UseTls(settings);
  if (Result<Setting> endpoint = settings.FindEndpoint(); endpoint.ok())
    config->endpoint = endpoint->value;
  else
    config->error = endpoint.status().message();
  if (Result<std::string> token = settings.FindToken(); token.ok())
    config->token = *token;
  else
    config->error = token.status().message();
  config->server_scope = ServerCacheScope(config->endpoint, config->token);
  config->vgpu = Get("FARCALL_VGPU");
  if (config->vgpu.size() > kMaxNameBytes) {
    config->error = "FARCALL_VGPU has " + std::to_string(config->vgpu.size()) + " bytes; at most " +
                    std::to_string(kMaxNameBytes);
  }
  LoadTargets(settings, config);
  Setting count = settings.Find("count");
  if (!count.value.empty() && !ParseCount(count.value, &config->devices))
    config->error = Wrong(count, "count", "is no number of devices; write 1 to 64");
  config->stats_file = settings.Find("stats").value;
  config->counters_folder = Get("FARCALL_COUNTERS");
  config->sync = LoadFlag(settings, "sync", config);
  config->cache_dir = settings.CacheFolder();
  LoadTransport(settings, config);
  LoadQuota(settings, config);
  if (!settings.error().empty()) config->error = settings.error();
  config->error = Printable(config->error, kMaxMessageBytes);  // values are shown in it
  return config;
}

}  // namespace

const Config& GetConfig() {
  static const Config* config = Load();
  return *config;
}

}  // namespace farcall::client
