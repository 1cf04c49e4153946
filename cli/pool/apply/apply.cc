// SPDX-License-Identifier: Apache-2.0
// `farcall pool apply` and `farcall pool label`.
#include <cstdio>
#include <memory>

#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "cli/pool/base/pool_options.h"
#include "generated/proto/pool.pb.h"
#include "proto/printable.h"
#include "settings/exit_code.h"
#if FARCALL_YAML
#include "cli/pool/apply/config_file.h"
#endif

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

Status ReadConfig([[maybe_unused]] const std::string& file, [[maybe_unused]] pb::Config* config) {
#if FARCALL_YAML
  return ReadConfigFile(file, config);
#else
  return {Code::kUnavailable, "this build reads no YAML: build it with libyaml-cpp-dev"};
#endif
}

void Print(const pb::ConfigChange& change) {
  std::printf("%s %s: %s\n", Printable(change.kind()).c_str(), Printable(change.name()).c_str(),
              change.action() == "none"     ? "as declared"
              : change.action() == "create" ? "new"
                                            : "changed");
  auto value = [](const std::string& text) { return text.empty() ? "none" : Printable(text); };
  for (const pb::ConfigField& field : change.fields())
    std::printf("  %s: %s -> %s\n", Printable(field.name()).c_str(), value(field.before()).c_str(),
                value(field.after()).c_str());
}

int Apply(const PoolOptions& pool, const std::string& file, bool is_dry_run) {
  pb::Config config;
  if (Status read = ReadConfig(file, &config); !read.ok()) {
    std::fprintf(stderr, "farcall pool: %s\n", Printable(read.message(), kMaxMessageBytes).c_str());
    return read.code() == Code::kInvalid ? kExitUsage : kExitFailure;
  }
  config.set_dry_run(is_dry_run);
  pb::ConfigDiff diff;
  const int code = Call(pool, "POST", "/v1/apply", &config, &diff);
  if (code != 0 || pool.json) return code;
  int differed = 0;
  for (const pb::ConfigChange& change : diff.changes()) {
    Print(change);
    differed += change.action() == "none" ? 0 : 1;
  }
  std::printf("%d of %d objects %s\n", differed, diff.changes_size(),
              is_dry_run ? "would change" : "changed");
  return kExitOk;
}

std::string CheckLabel(const std::string& text) {
  const size_t equals = text.find('=');
  return !text.empty() && equals != 0 && text != "-"
             ? ""
             : "'" + text + "': write zone=a, spot, or zone- to remove it";
}

// What is not named stays.
int Label(const PoolOptions& pool, const std::string& host, const std::vector<std::string>& given) {
  pb::HostList list;
  PoolOptions quiet = pool;
  quiet.json = false;
  if (const int code = Call(quiet, "GET", "/v1/hosts", nullptr, &list); code != 0) return code;
  pb::HostLabels labels;
  for (const pb::Host& one : list.hosts()) {
    if (one.name() != host) continue;
    *labels.mutable_labels() = one.labels();
    labels.set_if_revision(one.revision());
  }
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos && text.back() == '-')
      labels.mutable_labels()->erase(text.substr(0, text.size() - 1));
    else
      (*labels.mutable_labels())[text.substr(0, equals)] =
          equals == std::string::npos ? "" : text.substr(equals + 1);
  }
  pb::Host told;
  const int code = Call(pool, "PUT", "/v1/hosts/" + host + "/labels", &labels, &told);
  if (code != 0 || pool.json) return code;
  std::printf("%s:", Printable(told.name()).c_str());
  const std::map<std::string, std::string> sorted(told.labels().begin(), told.labels().end());
  for (const auto& [key, value] : sorted)
    std::printf(" %s%s", Printable(key).c_str(),
                value.empty() ? "" : ("=" + Printable(value)).c_str());
  std::printf("%s\n", sorted.empty() ? " no labels" : "");
  return kExitOk;
}

}  // namespace

void AddPoolApply(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "apply", "Makes projects, groups, users and hosts' labels as a file declares them");
  auto pool = AddPoolOptions(command);
  auto file = std::make_shared<std::string>();
  auto is_dry_run = std::make_shared<bool>(false);
  command->add_option("-f,--file", *file, "YAML file; what it does not name stays as it is")
      ->required();
  command->add_flag("--dry-run", *is_dry_run, "show what would change, and change nothing");
  command->footer(
      "All of the file is applied or, if any of it cannot be, nothing.\n"
      "Example: farcall pool apply -f pool.yaml --dry-run");
  command->callback(
      [pool, file, is_dry_run, &exit_code] { exit_code = Apply(*pool, *file, *is_dry_run); });
}

void AddPoolLabel(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("label", "Changes the labels of a host");
  auto pool = AddPoolOptions(command);
  auto host = std::make_shared<std::string>();
  auto labels = std::make_shared<std::vector<std::string>>();
  command->add_option("host", *host, "name of the host")->required()->check(CheckName);
  command->add_option("labels", *labels, "zone=a or spot; zone- removes it")
      ->required()
      ->check(CheckLabel);
  command->footer("Example: farcall pool label gpu7 zone=a spot");
  command->callback([pool, host, labels, &exit_code] { exit_code = Label(*pool, *host, *labels); });
}

}  // namespace farcall::cli
