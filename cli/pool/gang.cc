// SPDX-License-Identifier: Apache-2.0
// `farcall pool request --gang` and `farcall pool env`.
#include "cli/pool/gang.h"

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "proto/printable.h"
#include "settings/exit_code.h"
#include "transport/url.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

void Print(const pb::Gang& gang) {
  std::printf("%s  %s  %u member(s)\n", Printable(gang.id()).c_str(),
              Printable(gang.state()).c_str(), gang.size());
  for (const pb::GangMember& member : gang.members()) {
    std::printf("  %3u  %s  %-9s", member.rank(), Printable(member.claim()).c_str(),
                Printable(member.state()).c_str());
    if (!member.host().empty()) std::printf("  %s", Printable(member.host()).c_str());
    for (uint32_t device : member.devices()) std::printf(":%u", device);
    if (member.endpoints_size() != 0) std::printf("  %s", Printable(member.endpoints(0)).c_str());
    std::printf("\n");
  }
}

// A word of a shell's, whatever is in it.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text)
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  return quoted + "'";
}

struct EnvFlags {
  std::string name, master;
  bool is_one_program = false;
  std::optional<uint32_t> rank, port;
};

int Fail(const std::string& why, int code) {
  std::fprintf(stderr, "farcall pool env: %s\n", why.c_str());
  return code;
}

void PrintExport(const std::string& name, const std::string& value) {
  std::printf("export %s=%s\n", name.c_str(), Quoted(Printable(value, kMaxMessageBytes)).c_str());
}

// A session with each member's host, and one list of their devices.
int PrintOneProgram(const pb::Gang& gang) {
  if (static_cast<size_t>(gang.members_size()) > kMaxEndpoints)
    return Fail("--one-program: the gang has " + std::to_string(gang.members_size()) +
                    " members, and a program can have sessions with " +
                    std::to_string(kMaxEndpoints),
                kExitUsage);
  std::string claims;
  for (const pb::GangMember& member : gang.members())
    claims += (claims.empty() ? "" : ",") + member.claim();
  PrintExport("FARCALL_CLAIM", claims);
  const auto& env = gang.env();
  if (auto endpoint = env.find("FARCALL_ENDPOINT"); endpoint != env.end())
    PrintExport(endpoint->first, endpoint->second);
  return kExitOk;
}

int Env(const PoolOptions& pool, const EnvFlags& flags) {
  PoolOptions silent = pool;
  silent.json = false;
  pb::Gang gang;
  if (int code = Call(silent, "GET", "/v1/gangs/" + flags.name, nullptr, &gang); code != 0)
    return code;
  if (gang.state() != "bound")
    return Fail(gang.id() + " is " + Printable(gang.state()) + ", not bound: " +
                    Printable(gang.why().empty() ? gang.reason() : gang.why(), kMaxMessageBytes),
                kExitNoPlace);
  if (flags.rank && *flags.rank >= static_cast<uint32_t>(gang.members_size()))
    return Fail("--rank " + std::to_string(*flags.rank) + ": the gang has 0 to " +
                    std::to_string(gang.members_size() - 1),
                kExitUsage);
  if (flags.is_one_program) return PrintOneProgram(gang);
  std::map<std::string, std::string> env(gang.env().begin(), gang.env().end());
  if (flags.rank)
    for (const auto& [name, value] : gang.members(static_cast<int>(*flags.rank)).env())
      env[name] = value;
  if (!flags.master.empty()) env["MASTER_ADDR"] = env["PET_MASTER_ADDR"] = flags.master;
  if (flags.port) env["MASTER_PORT"] = env["PET_MASTER_PORT"] = std::to_string(*flags.port);
  for (const auto& [name, value] : env) PrintExport(name, value);
  return kExitOk;
}

}  // namespace

int RequestGang(const PoolOptions& pool, const pb::GangRequest& request, bool keeps) {
  pb::Gang gang;
  if (int code = Call(pool, "POST", "/v1/gangs", &request, &gang); code != 0) return code;
  if (!pool.json) Print(gang);
  if (gang.state() == "bound" || gang.state() == "reserved") return kExitOk;
  const std::string why =
      Printable(gang.why().empty() ? gang.reason() : gang.why(), kMaxMessageBytes);
  if (keeps || gang.state() != "pending") {
    std::fprintf(stderr, "%s\n", why.c_str());
    return keeps ? kExitOk : kExitNoPlace;
  }
  PoolOptions silent = pool;
  silent.json = false;
  pb::Gang released;
  if (Call(silent, "DELETE", "/v1/gangs/" + gang.id(), nullptr, &released) != 0)
    return kExitFailure;
  std::fprintf(stderr,
               "farcall pool request: no place: %s; %s is released (--keep leaves it in the "
               "queue)\n",
               why.c_str(), Printable(gang.id()).c_str());
  return kExitNoPlace;
}

void AddPoolEnv(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "env", "Prints the variables with which torchrun starts on a gang's members");
  auto pool = AddPoolAddress(command);
  auto flags = std::make_shared<EnvFlags>();
  command->add_option("name", flags->name, "name of the gang")->required()->check(CheckName);
  command->add_option("--rank", flags->rank,
                      "member whose claim and rank are to be set (default: what all have)");
  command
      ->add_flag("--one-program", flags->is_one_program,
                 "one program is to see the devices of all members")
      ->excludes("--rank");
  command->add_option("--master-addr", flags->master,
                      "address of the machine on which rank 0 runs (default: 127.0.0.1)");
  command->add_option("--master-port", flags->port, "port for torchrun there (default: 29500)")
      ->check(CLI::Range(1, 65535));
  command->footer(
      "Example: eval \"$(farcall pool env g-0123456789abcdef --rank 0)\"\n"
      "         farcall run -- torchrun train.py");
  command->callback([pool, flags, &exit_code] { exit_code = Env(*pool, *flags); });
}

}  // namespace farcall::cli
