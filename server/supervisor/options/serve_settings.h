// SPDX-License-Identifier: Apache-2.0
// Every setting of the server, declared once: its name in the configuration file, the flag's help,
// and what it sets. The file and the command line are read by this table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/settings_file.h"
#include "proto/status.h"
#include "server/supervisor/options/serve_options.h"

namespace farcall::server {

// One of the members from `text` on is not null, and says what the setting takes.
struct ServeSetting {
  std::string_view name;   // in the file; the flag is "--" and the name with hyphens
  std::string_view group;  // of the help; empty: the file alone has it
  std::string_view help = {};
  std::string_view shown_default = {};  // empty: the help says it, or there is none to say
  int64_t least = 0, most = 0;          // of a number
  bool takes_numbers = false;           // the file may give a number to `parse`

  std::string* (*text)(ServeOptions&) = nullptr;
  uint64_t* (*bytes)(ServeOptions&) = nullptr;
  uint32_t* (*number)(ServeOptions&) = nullptr;
  bool* (*flag)(ServeOptions&) = nullptr;
  std::vector<std::string>* (*list)(ServeOptions&) = nullptr;
  // Of another form. May wipe the text.   Errors  kInvalid (the value, and what would be right)
  Status (*parse)(std::string* text, ServeOptions*) = nullptr;
};

// In the order in which they are applied and shown.
std::span<const ServeSetting> ServeSettings();

// "--max-share"
std::string FlagOf(const ServeSetting& setting);

// Sets it to what was typed.   Errors  kInvalid (names the flag)
Status ApplyFlag(const ServeSetting& setting, const SettingValue& typed, ServeOptions* options);
// Sets it to what the file says.   Errors  kInvalid (names the file and the setting)
Status ApplySetting(const ServeSetting& setting, const SettingValue& value, const std::string& path,
                    ServeOptions* options);

}  // namespace farcall::server
