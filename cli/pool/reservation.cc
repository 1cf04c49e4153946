// SPDX-License-Identifier: Apache-2.0
// `farcall pool reservation create`, `list` and `delete`.
#include <cstdio>
#include <memory>

#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "cli/pool/base/pool_options.h"
#include "generated/proto/pool.pb.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

void PrintHead() {
  std::printf("%-20s %-9s %-21s %-21s %5s %6s %-16s %s\n", "RESERVATION", "STATE", "BEGIN", "END",
              "GPUS", "CLAIMS", "PROJECT", "ON");
}

void Print(const pb::Reservation& one) {
  std::string on;
  for (const std::string& gpu : one.held()) on += (on.empty() ? "" : ",") + gpu;
  std::printf("%-20s %-9s %-21s %-21s %5u %6u %-16s %s\n", Printable(one.name()).c_str(),
              Printable(one.state()).c_str(), Printable(one.begin()).c_str(),
              Printable(one.end()).c_str(), one.gpus(), one.claims(),
              one.project().empty() ? "any" : Printable(one.project()).c_str(),
              Printable(on, kMaxMessageBytes).c_str());
}

int Create(const PoolOptions& pool, const pb::Reservation& asked) {
  pb::Reservation made;
  const int code = Call(pool, "POST", "/v1/reservations", &asked, &made);
  if (code != 0 || pool.json) return code;
  PrintHead();
  Print(made);
  return 0;
}

int List(const PoolOptions& pool) {
  pb::ReservationList list;
  std::string page;
  bool is_first = true;
  do {
    list.Clear();
    const int code =
        Call(pool, "GET", "/v1/reservations?limit=1000&page_token=" + page, nullptr, &list);
    if (code != 0) return code;
    page = list.next_page_token();
    if (pool.json) continue;
    if (std::exchange(is_first, false)) PrintHead();
    for (const pb::Reservation& one : list.reservations()) Print(one);
  } while (!page.empty());
  return 0;
}

int Delete(const PoolOptions& pool, const std::string& name) {
  pb::Reservation gone;
  const int code = Call(pool, "DELETE", "/v1/reservations/" + name, nullptr, &gone);
  if (code == 0 && !pool.json)
    std::printf("%s is deleted, and the %u claim(s) that named it end\n", Printable(name).c_str(),
                gone.claims());
  return code;
}

void AddCreate(CLI::App* parent, int& exit_code) {
  CLI::App* command =
      parent->add_subcommand("create", "Keeps GPUs for claims that name the reservation");
  auto pool = AddPoolOptions(command);
  auto asked = std::make_shared<pb::Reservation>();
  command
      ->add_option_function<std::string>(
          "name", [asked](const std::string& text) { asked->set_name(text); },
          "name of the reservation")
      ->required()
      ->check(CheckName);
  command
      ->add_option_function<uint32_t>(
          "--gpus", [asked](uint32_t gpus) { asked->set_gpus(gpus); },
          "number of GPUs, whole (default: 1)")
      ->check(CLI::Range(1, 10'000));
  command->add_option_function<std::string>(
      "--begin", [asked](const std::string& text) { asked->set_begin(text); },
      "time from which they are kept: \"2026-12-01 08:00 Europe/Berlin\", "
      "2026-12-01T08:00+01:00 (default: now)");
  command
      ->add_option_function<std::string>(
          "--end", [asked](const std::string& text) { asked->set_end(text); },
          "time at which its claims end, in the same form")
      ->required();
  command->add_option_function<std::string>(
      "--project", [asked](const std::string& text) { asked->set_project(text); },
      "project whose claims, and those of its children, may name it (default: any)");
  command->add_option_function<std::string>(
      "--group", [asked](const std::string& text) { asked->set_group(text); },
      "resource group of whose hosts they are (default: default)");
  command->add_option_function<std::string>(
      "--model", [asked](const std::string& text) { asked->set_model(text); },
      "text that the GPUs' name has to contain");
  command->add_option_function<std::string>(
      "--selector", [asked](const std::string& text) { asked->set_selector(text); },
      "labels that their hosts have to have: \"zone=a, !spot\"");
  command->footer(
      "Example: farcall pool reservation create course --gpus 8 --project teaching "
      "--begin \"2026-12-01 08:00 Europe/Berlin\" --end \"2026-12-01 18:00 Europe/Berlin\"\n"
      "         farcall pool request --mem 8GiB --project teaching --reservation course");
  command->callback([pool, asked, &exit_code] { exit_code = Create(*pool, *asked); });
}

}  // namespace

void AddPoolReservation(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("reservation", "GPUs that are kept from one time of day to another");
  command->require_subcommand(1);
  AddCreate(command, exit_code);
  CLI::App* list = command->add_subcommand("list", "Lists reservations, and what they hold");
  auto options = AddPoolOptions(list);
  list->callback([options, &exit_code] { exit_code = List(*options); });
  CLI::App* gone =
      command->add_subcommand("delete", "Ends a reservation, and the claims that name it");
  auto pool = AddPoolOptions(gone);
  auto name = std::make_shared<std::string>();
  gone->add_option("name", *name, "name of the reservation")->required()->check(CheckName);
  gone->callback([pool, name, &exit_code] { exit_code = Delete(*pool, *name); });
}

}  // namespace farcall::cli
