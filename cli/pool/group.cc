// SPDX-License-Identifier: Apache-2.0
// `farcall pool group list`, `show`, `set` and `delete`.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "cli/pool/base/pool_options.h"
#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "pool/core/model/placers.h"
#include "pool/core/model/round_trips.h"
#include "pool/core/model/selector.h"
#include "pool/core/placing/sequencer.h"
#include "proto/printable.h"
#include "settings/oversubscribe.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

struct SetFlags {
  std::string name;
  std::optional<std::string> selector, sequencer, placer;
  std::optional<std::vector<std::string>> hosts, projects, round_trips, model_tflops;
  std::optional<std::string> oversubscribe;
  std::optional<uint32_t> max_pending, max_claims;
};

std::string Path(const std::string& name) {
  return "/v1/groups/" + name;
}

std::string Or(const std::string& text, const char* other) {
  return text.empty() ? other : Printable(text);
}

std::string Joined(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + Printable(text);
  return all;
}

std::string MostText(uint32_t most) {
  return most == 0 ? "-" : std::to_string(most);
}

void PrintHead() {
  std::printf("%-20s %5s %5s %7s %7s %-9s %-8s %s\n", "GROUP", "HOSTS", "GPUS", "CLAIMS", "WAITING",
              "SEQUENCER", "PLACER", "PROJECTS");
}

void Print(const pb::Group& group) {
  std::printf("%-20s %5d %5u %7u %7u %-9s %-8s %s\n", Printable(group.name()).c_str(),
              group.members_size(), group.gpus(), group.claims(), group.pending(),
              Or(group.sequencer(), "pool's").c_str(), Or(group.placer(), "pool's").c_str(),
              Or(Joined(group.projects()), "any").c_str());
}

void PrintAll(const pb::Group& group) {
  std::printf("%s: %d host(s), %u GPU(s), %u claim(s), %u wait\n", Printable(group.name()).c_str(),
              group.members_size(), group.gpus(), group.claims(), group.pending());
  std::printf("  hosts: %s\n", Or(Joined(group.members()), "none").c_str());
  if (group.hosts_size() != 0) std::printf("  names: %s\n", Joined(group.hosts()).c_str());
  if (!group.selector().empty())
    std::printf("  selector: %s\n", Printable(group.selector(), kMaxMessageBytes).c_str());
  std::printf("  projects: %s\n", Or(Joined(group.projects()), "any").c_str());
  std::printf("  sequencer: %s, placer: %s\n", Or(group.sequencer(), "the pool's").c_str(),
              Or(group.placer(), "the pool's").c_str());
  if (group.oversubscribe() > 1)
    std::printf("  oversubscribe: %g times its GPUs' memory\n", group.oversubscribe());
  for (const pb::ModelTflops& one : group.model_tflops())
    std::printf("  TFLOPS of %s: %.9g\n", Printable(one.model()).c_str(), one.tflops());
  for (const pb::ZoneRoundTrip& one : group.round_trips())
    std::printf("  round trip %s %s: %s\n", Printable(one.from()).c_str(),
                Printable(one.to()).c_str(), pool::RoundTripText(one.us()).c_str());
  std::printf("  claims at most: %s, waiting: %s\n", MostText(group.max_claims()).c_str(),
              MostText(group.max_pending()).c_str());
}

// "none" is no name: it empties the list.
void Take(const std::optional<std::vector<std::string>>& given,
          google::protobuf::RepeatedPtrField<std::string>* into) {
  if (!given) return;
  into->Clear();
  for (const std::string& text : *given)
    if (text != "none") *into->Add() = text;
}

std::vector<std::string> Placers() {
  std::vector<std::string> names = pool::PlacerNames();
  names.emplace_back("none");
  return names;
}

// "a:b=300us"
bool ReadRoundTrip(const std::string& text, pb::ZoneRoundTrip* trip) {
  const size_t colon = text.find(':'), equals = text.find('=', colon);
  if (colon == std::string::npos || equals == std::string::npos) return false;
  trip->set_from(text.substr(0, colon));
  trip->set_to(text.substr(colon + 1, equals - colon - 1));
  uint32_t us = 0;
  if (!ReadMicroseconds(text.substr(equals + 1), &us)) return false;
  trip->set_us(us);
  return !trip->from().empty() && !trip->to().empty();
}

// "A100=312"
bool ReadModelTflops(const std::string& text, pb::ModelTflops* model) {
  const size_t equals = text.rfind('=');
  double tflops = 0;
  if (equals == std::string::npos || equals == 0 || !ReadTflops(text.substr(equals + 1), &tflops))
    return false;
  model->set_model(text.substr(0, equals));
  model->set_tflops(tflops);
  return true;
}

std::string CheckModelTflops(const std::string& text) {
  pb::ModelTflops model;
  return text == "none" || ReadModelTflops(text, &model)
             ? ""
             : "'" + text + "': write a model and its TFLOPS, as A100=312";
}

// Of what was checked.
double OversubscribeOf(const std::string& text) {
  uint32_t milli = kWholeMilli;
  (void)ParseOversubscribe(text, &milli);
  return milli / 1000.0;
}

std::string CheckRoundTrip(const std::string& text) {
  pb::ZoneRoundTrip trip;
  return text == "none" || ReadRoundTrip(text, &trip)
             ? ""
             : "'" + text + "': write two zones and a time up to 10s, as a:b=300us or a:c=1.5ms";
}

std::string Taken(const std::string& given) {
  return given == "none" ? "" : given;
}

// What is not given stays as it is.
int Set(const PoolOptions& pool, const SetFlags& flags) {
  pool::PoolAddress address;
  pb::Group group, set;
  // Whatever goes wrong here the change tells of.
  if (FindPool(pool, &address).ok()) (void)pool::RestGet(address, Path(flags.name), &group);
  group.set_if_revision(group.revision());
  group.clear_members();
  if (flags.selector) group.set_selector(Taken(*flags.selector));
  if (flags.sequencer) group.set_sequencer(Taken(*flags.sequencer));
  if (flags.placer) group.set_placer(Taken(*flags.placer));
  Take(flags.hosts, group.mutable_hosts());
  Take(flags.projects, group.mutable_projects());
  if (flags.model_tflops) {
    group.clear_model_tflops();
    for (const std::string& text : *flags.model_tflops)
      if (text != "none") ReadModelTflops(text, group.add_model_tflops());
  }
  if (flags.round_trips) {
    group.clear_round_trips();
    for (const std::string& text : *flags.round_trips)
      if (text != "none") ReadRoundTrip(text, group.add_round_trips());
  }
  if (flags.oversubscribe) group.set_oversubscribe(OversubscribeOf(*flags.oversubscribe));
  if (flags.max_pending) group.set_max_pending(*flags.max_pending);
  if (flags.max_claims) group.set_max_claims(*flags.max_claims);
  const int code = Call(pool, "PUT", Path(flags.name), &group, &set);
  if (code == 0 && !pool.json) PrintAll(set);
  return code;
}

void AddSet(CLI::App* parent, int& exit_code) {
  CLI::App* command = parent->add_subcommand("set", "Makes a group, or changes it");
  auto pool = AddPoolOptions(command);
  auto flags = std::make_shared<SetFlags>();
  command->add_option("name", flags->name, "name of the group; default: of all other hosts")
      ->required()
      ->check(CheckName);
  command
      ->add_option("--selector", flags->selector,
                   "labels by which hosts are its: \"zone=a, !spot\"; none removes it")
      ->check([](const std::string& text) {
        pool::Selector read;
        return text == "none" ? std::string() : pool::ParseSelector(text, &read);
      });
  command->add_option("--hosts", flags->hosts, "names of hosts that are its: gpu1,gpu2; or none")
      ->delimiter(',');
  command
      ->add_option("--projects", flags->projects,
                   "projects whose claims, and those of their children, may ask for it; none: any")
      ->delimiter(',');
  command
      ->add_option("--sequencer", flags->sequencer,
                   "order of its claims: fifo, lifo, drf or fair; none: the pool's")
      ->check(CLI::IsMember({"fifo", "lifo", "drf", "fair", "none"}));
  command
      ->add_option("--placer", flags->placer,
                   "placement of its claims: " + pool::PlacersText() + "; none: the pool's")
      ->check(CLI::IsMember(Placers()));
  command
      ->add_option("--round-trips", flags->round_trips,
                   "for the placer near: times between zones, as a:b=300us,a:c=12ms; none: those "
                   "of default")
      ->delimiter(',')
      ->check(CheckRoundTrip);
  command
      ->add_option("--model-tflops", flags->model_tflops,
                   "what claims with --tflops go by, as A100=312,H100=989: TFLOPS of models, by a "
                   "word, or words, of the GPU's name; none: those of default")
      ->delimiter(',')
      ->check(CheckModelTflops);
  command
      ->add_option("--oversubscribe", flags->oversubscribe,
                   "lend this many times its GPUs' memory, as 1.5, where hosts do (serve "
                   "--oversubscribe); 1: once")
      ->check([](const std::string& text) {
        uint32_t milli = 0;
        return ParseOversubscribe(text, &milli) ? "" : "'" + text + "': " + kOversubscribeForm;
      });
  command->add_option("--max-pending", flags->max_pending, "claims that may wait; 0: any number");
  command->add_option("--max-claims", flags->max_claims,
                      "claims that may have a place; 0: any number");
  command->footer(
      "What is not given stays as it is.\n"
      "Example: farcall pool group set a100 --selector model-a100 --projects research\n"
      "         farcall pool request --group a100 --project research --mem 40GiB");
  command->callback([pool, flags, &exit_code] { exit_code = Set(*pool, *flags); });
}

int List(const PoolOptions& pool) {
  pb::GroupList list;
  std::string page;
  bool is_first = true;
  do {
    list.Clear();
    const int code = Call(pool, "GET", "/v1/groups?limit=1000&page_token=" + page, nullptr, &list);
    if (code != 0) return code;
    page = list.next_page_token();
    if (pool.json) continue;
    if (std::exchange(is_first, false)) PrintHead();
    for (const pb::Group& group : list.groups()) Print(group);
  } while (!page.empty());
  return 0;
}

int Show(const PoolOptions& pool, const std::string& name) {
  pb::Group group;
  const int code = Call(pool, "GET", Path(name), nullptr, &group);
  if (code == 0 && !pool.json) PrintAll(group);
  return code;
}

int Delete(const PoolOptions& pool, const std::string& name) {
  pb::Group group;
  const int code = Call(pool, "DELETE", Path(name), nullptr, &group);
  if (code == 0 && !pool.json) std::printf("%s is deleted\n", Printable(name).c_str());
  return code;
}

}  // namespace

void AddPoolGroup(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("group", "Lists and changes groups of hosts");
  command->require_subcommand(1);
  CLI::App* list = command->add_subcommand("list", "Lists groups, and what their claims come to");
  auto options = AddPoolOptions(list);
  list->callback([options, &exit_code] { exit_code = List(*options); });
  auto of_one = [&](const char* verb, const char* does,
                    int (*run)(const PoolOptions&, const std::string&)) {
    CLI::App* one = command->add_subcommand(verb, does);
    auto pool = AddPoolOptions(one);
    auto name = std::make_shared<std::string>();
    one->add_option("name", *name, "name of the group")->required()->check(CheckName);
    one->callback([pool, name, run, &exit_code] { exit_code = run(*pool, *name); });
  };
  of_one("show", "Shows a group and its hosts", Show);
  AddSet(command, exit_code);
  of_one("delete", "Deletes a group without claims; its hosts are of default then", Delete);
}

}  // namespace farcall::cli
