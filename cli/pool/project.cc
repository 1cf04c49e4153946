// SPDX-License-Identifier: Apache-2.0
// `farcall pool project list`, `set` and `delete`.
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/pool/base/bounds.h"
#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/pool_options.h"
#include "pool/client/rest_client.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

struct SetFlags {
  std::string name;
  std::optional<uint32_t> weight, over_quota_weight;
  std::optional<uint32_t> max_pending, max_claims, tenant_max_pending, tenant_max_claims;
  std::vector<std::string> deserved, limit;
};

std::string Path(const std::string& name) {
  return "/v1/projects/" + name;
}

std::string CheckProject(const std::string& text) {
  const bool is_good = !text.empty() && text.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789._-/") == std::string::npos;
  return is_good ? "" : "'" + text + "': letters, digits and . _ -, with / between the parts";
}

void Fill(const std::vector<std::string>& texts, pb::Project* project,
          pb::ResourceBounds* (pb::Project::*all)(),
          pb::ResourceBounds* (pb::ModelBounds::*one)()) {
  for (const std::string& text : texts) {
    GivenBounds given;
    ParseBounds(text, &given);
    if (given.model.empty()) {
      *(project->*all)() = given.bounds;
      continue;
    }
    pb::ModelBounds* model = nullptr;
    for (pb::ModelBounds& known : *project->mutable_models())
      if (known.model() == given.model) model = &known;
    if (model == nullptr) {
      model = project->add_models();
      model->set_model(given.model);
    }
    *(model->*one)() = given.bounds;
  }
}

void Print(const pb::Project& project) {
  std::printf("%-24s %6u %-22s %-22s %8.2f %7u %7u\n", Printable(project.name()).c_str(),
              project.weight(), BoundsText(project.deserved()).c_str(),
              BoundsText(project.limit()).c_str(),
              static_cast<double>(project.used().device_milli()) / 1000.0, project.claims(),
              project.pending());
  for (const pb::ModelBounds& model : project.models())
    std::printf("  %-22s %6s %-22s %-22s\n", ("of " + Printable(model.model())).c_str(), "",
                BoundsText(model.deserved()).c_str(), BoundsText(model.limit()).c_str());
}

void PrintHead() {
  std::printf("%-24s %6s %-22s %-22s %8s %7s %7s\n", "PROJECT", "WEIGHT", "DESERVED", "LIMIT",
              "GPUS", "CLAIMS", "WAITING");
}

// What is not given stays as it is.
int Set(const PoolOptions& pool, const SetFlags& flags) {
  pool::PoolAddress address;
  pb::Project project, set;
  // Whatever goes wrong here the change tells of.
  if (FindPool(pool, &address).ok()) (void)pool::RestGet(address, Path(flags.name), &project);
  project.set_if_revision(project.revision());
  if (flags.weight) project.set_weight(*flags.weight);
  if (flags.over_quota_weight) project.set_over_quota_weight(*flags.over_quota_weight);
  if (flags.max_pending) project.set_max_pending(*flags.max_pending);
  if (flags.max_claims) project.set_max_claims(*flags.max_claims);
  if (flags.tenant_max_pending) project.set_tenant_max_pending(*flags.tenant_max_pending);
  if (flags.tenant_max_claims) project.set_tenant_max_claims(*flags.tenant_max_claims);
  Fill(flags.deserved, &project, &pb::Project::mutable_deserved,
       &pb::ModelBounds::mutable_deserved);
  Fill(flags.limit, &project, &pb::Project::mutable_limit, &pb::ModelBounds::mutable_limit);
  const int code = Call(pool, "PUT", Path(flags.name), &project, &set);
  if (code != 0 || pool.json) return code;
  PrintHead();
  Print(set);
  return 0;
}

void AddSet(CLI::App* parent, int& exit_code) {
  CLI::App* command = parent->add_subcommand("set", "Makes a project, or changes it");
  auto pool = AddPoolOptions(command);
  auto flags = std::make_shared<SetFlags>();
  command->add_option("name", flags->name, "name, below its parent's: research/vision")
      ->required()
      ->check(CheckProject);
  command->add_option("--weight", flags->weight, "weight beside its siblings (default: 1)");
  command->add_option("--over-quota-weight", flags->over_quota_weight,
                      "weight above its deserved quota; 0: it gets no more (default: --weight)");
  command
      ->add_option("--deserved", flags->deserved,
                   "deserved quota, which it may reclaim: mem=80GiB,share=250%,gpus=2, with "
                   "model=NAME for GPUs of one model; none removes it")
      ->check(CheckBounds);
  command->add_option("--limit", flags->limit, "what it never exceeds, in the same form")
      ->check(CheckBounds);
  command->add_option("--max-pending", flags->max_pending, "claims that may wait; 0: any number");
  command->add_option("--max-claims", flags->max_claims,
                      "claims that may have a place; 0: any number");
  command->add_option("--tenant-max-pending", flags->tenant_max_pending,
                      "claims of one tenant that may wait; 0: any number");
  command->add_option("--tenant-max-claims", flags->tenant_max_claims,
                      "claims of one tenant that may have a place; 0: any number");
  command->footer(
      "What is not given stays as it is.\n"
      "Example: farcall pool project set research --weight 2\n"
      "         farcall pool project set research/vision --deserved mem=160GiB,gpus=2");
  command->callback([pool, flags, &exit_code] { exit_code = Set(*pool, *flags); });
}

int List(const PoolOptions& pool) {
  pb::ProjectList list;
  std::string page;
  bool is_first = true;
  do {
    list.Clear();
    const int code =
        Call(pool, "GET", "/v1/projects?limit=1000&page_token=" + page, nullptr, &list);
    if (code != 0) return code;
    page = list.next_page_token();
    if (pool.json) continue;
    if (std::exchange(is_first, false)) PrintHead();
    for (const pb::Project& project : list.projects()) Print(project);
  } while (!page.empty());
  return 0;
}

int Delete(const PoolOptions& pool, const std::string& name) {
  pb::Project project;
  const int code = Call(pool, "DELETE", Path(name), nullptr, &project);
  if (code == 0 && !pool.json) std::printf("%s is deleted\n", Printable(name).c_str());
  return code;
}

}  // namespace

void AddPoolProjectCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("project", "Lists and changes projects");
  command->require_subcommand(1);
  CLI::App* list = command->add_subcommand("list", "Lists projects, and what they use");
  auto options = AddPoolOptions(list);
  list->callback([options, &exit_code] { exit_code = List(*options); });
  AddSet(command, exit_code);
  CLI::App* gone =
      command->add_subcommand("delete", "Deletes a project without claims and children");
  auto pool = AddPoolOptions(gone);
  auto name = std::make_shared<std::string>();
  gone->add_option("name", *name, "name of the project")->required()->check(CheckProject);
  gone->callback([pool, name, &exit_code] { exit_code = Delete(*pool, *name); });
}

}  // namespace farcall::cli
