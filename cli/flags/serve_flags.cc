// SPDX-License-Identifier: Apache-2.0
#include "cli/flags/serve_flags.h"

#include "server/supervisor/options/serve_settings.h"

namespace farcall::cli {

namespace {

using server::ServeSetting;

CLI::Option* AddFlag(CLI::App* command, const ServeSetting& setting, ServeFlags::Typed* typed) {
  const std::string name = server::FlagOf(setting);
  const std::string help(setting.help);
  if (setting.flag != nullptr) return command->add_flag(name, typed->flag, help);
  if (setting.list != nullptr) return command->add_option(name, typed->list, help);
  if (setting.number != nullptr) {
    return command->add_option(name, typed->number, help)
        ->check(CLI::Range(static_cast<int>(setting.least), static_cast<int>(setting.most)));
  }
  return command->add_option(name, typed->text, help);
}

SettingValue ValueOf(const ServeSetting& setting, const ServeFlags::Typed& typed) {
  if (setting.flag != nullptr) return typed.flag;
  if (setting.list != nullptr) return typed.list;
  if (setting.number != nullptr) return static_cast<int64_t>(typed.number);
  return typed.text;
}

}  // namespace

void AddServeFlags(CLI::App* command, ServeFlags* flags) {
  for (const ServeSetting& setting : server::ServeSettings()) {
    if (setting.group.empty()) continue;
    command->option_defaults()->group(std::string(setting.group));
    CLI::Option* option = AddFlag(command, setting, &flags->typed[setting.name]);
    if (!setting.shown_default.empty()) option->default_str(std::string(setting.shown_default));
  }
  command->option_defaults()->group("Where");
  command->add_option("--config", flags->config,
                      "configuration file, TOML (default: /etc/farcall/server.toml if it exists)");
  command->option_defaults()->group("Reports");
  command->add_option("--report", flags->report,
                      "file for totals at exit: sessions, bytes, peak memory, as JSON (default: "
                      "none)");
}

Status ApplyServeFlags(const CLI::App& command, const ServeFlags& flags,
                       server::ServeOptions* options) {
  for (const ServeSetting& setting : server::ServeSettings()) {
    if (setting.group.empty() || command.count(server::FlagOf(setting)) == 0) continue;
    const SettingValue value = ValueOf(setting, flags.typed.at(setting.name));
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr || !text->empty()) FARCALL_TRY(server::ApplyFlag(setting, value, options));
  }
  options->report = flags.report;
  return {};
}

}  // namespace farcall::cli
