// SPDX-License-Identifier: Apache-2.0
// `farcall pool request`, `release`, `list`, `drain`, `explain`: by REST.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "cli/flags/quota_flags.h"
#include "cli/flags/seconds.h"
#include "cli/pool/base/bounds.h"
#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "cli/pool/base/pool_options.h"
#include "cli/pool/base/queue_priority.h"
#include "cli/pool/gang.h"
#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "pool/core/model/placers.h"
#include "pool/core/model/selector.h"
#include "pool/k8s/claims/owner.h"
#include "proto/printable.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

void Print(const pb::Claim& claim) {
  std::printf("%s  %-9s", Printable(claim.id()).c_str(), Printable(claim.state()).c_str());
  if (!claim.host().empty()) {
    std::printf("  %s", Printable(claim.host()).c_str());
    for (uint32_t device : claim.devices()) std::printf(":%u", device);
    std::printf("  %s GiB", Gib(claim.memory_bytes()).c_str());
  }
  if (claim.request().tflops() != 0) {
    std::printf("  %s", TflopsText(claim.request().tflops()).c_str());
    if (claim.share_milli() != 0) std::printf(" (%g %%)", claim.share_milli() / 10.0);
  }
  if (claim.request().share_milli() != 0)
    std::printf("  %g %%", claim.request().share_milli() / 10.0);
  if (claim.request().net_bytes_per_s() != 0)
    std::printf("  %s", ByteRateText(claim.request().net_bytes_per_s()).c_str());
  if (claim.request().queue_priority() != 0)
    std::printf("  priority %d", claim.request().queue_priority());
  if (claim.request().preemptible()) std::printf("  preemptible");
  if (!claim.project().empty() && claim.project() != "default")
    std::printf("  project %s", Printable(claim.project()).c_str());
  if (auto owner = k8s::ReadOwner(claim.owner()))
    std::printf("  pod %s/%s, container %s%s", Printable(owner->space).c_str(),
                Printable(owner->pod).c_str(), Printable(owner->container).c_str(),
                owner->node.empty() ? "" : (", node " + Printable(owner->node)).c_str());
  if (!claim.group().empty() && claim.group() != "default")
    std::printf("  group %s", Printable(claim.group()).c_str());
  if (claim.alternative() != 0) std::printf("  alternative %u", claim.alternative());
  if (!claim.gang().empty()) std::printf("  rank %u of %u", claim.rank(), claim.gang_size());
  if (claim.sessions() != 0) std::printf("  %u session(s)", claim.sessions());
  if (claim.host_lost()) std::printf("  host_lost");
  if (!claim.reason().empty())
    std::printf("  (%s)", Printable(claim.reason(), kMaxMessageBytes).c_str());
  std::printf("\n");
}

struct RequestFlags {
  pb::ClaimRequest request;
  QuotaFlags quota;
  uint32_t count = 1, seats = 0, gang = 0;
  double wait = 60, lifetime = 0;
  bool keep = false;
};

int64_t Milliseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1000);
}

// Of a claim's request or its change: what was given.
template <typename Message>
void Fill(const QuotaFlags& quota, Message* message) {
  if (!quota.mem.empty()) message->set_memory_bytes(quota.Bytes());
  if (!quota.share.empty()) message->set_share_milli(QuotaFlags::Milli(quota.share));
  if (!quota.limit.empty()) message->set_limit_milli(QuotaFlags::Milli(quota.limit));
  if (!quota.priority.empty()) message->set_class_(quota.priority);
  if (!quota.net.empty()) message->set_net_bytes_per_s(quota.BytesPerSecond());
}

void Fill(RequestFlags& flags) {
  Fill(flags.quota, &flags.request);
  flags.request.set_count(flags.count);
  flags.request.set_max_sessions(flags.seats);
  const bool is_later = !flags.request.begin().empty();
  flags.keep = flags.keep || is_later;
  flags.request.set_wait_ms(is_later ? 0 : Milliseconds(flags.wait));
  flags.request.set_lifetime_ms(Milliseconds(flags.lifetime));
  const char* user = std::getenv("USER");
  if (flags.request.owner().empty() && user != nullptr) flags.request.set_owner(user);
}

// A claim that got no place: why, and what becomes of it.
int TellNoPlace(const PoolOptions& pool, const RequestFlags& flags, const pb::Claim& claim) {
  PoolOptions silent = pool;
  silent.json = false;
  pb::Explanation told;
  Call(silent, "POST", "/v1/claims/" + claim.id() + ":explain", nullptr, &told);
  const std::string why = Printable(told.why(), kMaxMessageBytes);
  if (flags.keep || claim.state() != "pending") {
    if (!why.empty()) std::fprintf(stderr, "%s\n", why.c_str());
    return flags.keep ? kExitOk : kExitNoPlace;
  }
  pb::Claim released;
  if (Call(silent, "DELETE", "/v1/claims/" + claim.id(), nullptr, &released) != 0)
    return kExitFailure;
  std::fprintf(stderr,
               "farcall pool request: no place: %s; %s is released (--keep leaves it in the "
               "queue)\n",
               why.c_str(), Printable(claim.id()).c_str());
  return kExitNoPlace;
}

std::string DurationText(int64_t ms) {
  const long long seconds = ms / 1000;
  char text[48];
  if (seconds < 3600)
    std::snprintf(text, sizeof(text), "%lld:%02lld min", seconds / 60, seconds % 60);
  else
    std::snprintf(text, sizeof(text), "%lld:%02lld h", seconds / 3600, seconds / 60 % 60);
  return text;
}

void PrintExpected(const pb::Explanation& told) {
  const std::string cut = told.cut_short() ? " (cut short after 100 ms)" : "";
  if (told.has_starts_in_ms()) {
    std::printf("  expected start: in %s", DurationText(told.starts_in_ms()).c_str());
    if (told.has_starts_earliest_ms() && told.has_starts_latest_ms())
      std::printf(", between %s and %s", DurationText(told.starts_earliest_ms()).c_str(),
                  DurationText(told.starts_latest_ms()).c_str());
    std::printf("%s\n", cut.c_str());
  } else if (!told.start_basis().empty()) {
    std::printf("  expected start: not known%s\n", cut.c_str());
  }
  if (!told.start_basis().empty())
    std::printf("    if %s\n", Printable(told.start_basis(), kMaxMessageBytes).c_str());
  if (!told.quota().empty())
    std::printf("  quota: %s\n", Printable(told.quota(), kMaxMessageBytes).c_str());
}

void PrintAlternatives(const pb::Explanation& told) {
  for (const pb::AlternativeExplanation& one : told.alternatives())
    std::printf("  %s: %s\n", SizeText(one.size()).c_str(),
                one.fits_now() ? "would fit now" : Printable(one.why(), kMaxMessageBytes).c_str());
}

void PrintTflops(const pb::Explanation& told) {
  if (!told.tflops().empty())
    std::printf("  %s\n", Printable(told.tflops(), kMaxMessageBytes).c_str());
}

void PrintPlan(const pb::Explanation& told) {
  if (told.fits_now()) {
    std::printf("it would start now on");
    if (told.hosts_size() == 0) std::printf(" %s", Printable(told.host()).c_str());
    for (const std::string& host : told.hosts()) std::printf(" %s", Printable(host).c_str());
    if (told.alternatives_size() > static_cast<int>(told.alternative()))
      std::printf(", as %s",
                  SizeText(told.alternatives(static_cast<int>(told.alternative())).size()).c_str());
    std::printf("\n");
  } else {
    std::printf("it would wait: %s\n", Printable(told.why(), kMaxMessageBytes).c_str());
  }
  PrintTflops(told);
  PrintAlternatives(told);
  PrintExpected(told);
}

int Request(const PoolOptions& pool, RequestFlags& flags) {
  Fill(flags);
  if (flags.gang != 0) {
    pb::GangRequest gang;
    gang.set_members(flags.gang);
    *gang.mutable_member() = flags.request;
    return RequestGang(pool, gang, flags.keep);
  }
  pb::Claim claim;
  int code = Call(pool, "POST", "/v1/claims", &flags.request, &claim);
  if (code != 0) return code;
  if (!pool.json) Print(claim);
  const bool has_place = claim.state() != "pending" && claim.state() != "failed";
  return has_place ? kExitOk : TellNoPlace(pool, flags, claim);
}

// On which GPUs, and from when.
void AddPlaceFlags(CLI::App* command, const std::shared_ptr<RequestFlags>& flags) {
  command->add_option_function<std::string>(
      "--model", [flags](const std::string& text) { flags->request.set_model(text); },
      "text that the GPU's name has to contain");
  command
      ->add_option_function<std::string>(
          "--selector", [flags](const std::string& text) { flags->request.set_selector(text); },
          "labels that its host has to have: \"zone=a, !spot, model in (H100,A100)\"")
      ->check([](const std::string& text) {
        pool::Selector read;
        return pool::ParseSelector(text, &read);
      });
  command->add_option_function<std::vector<std::string>>(
      "--label",
      [flags](const std::vector<std::string>& labels) {
        for (const std::string& label : labels) {
          const size_t equals = label.find('=');
          (*flags->request.mutable_labels())[label.substr(0, equals)] =
              equals == std::string::npos ? "" : label.substr(equals + 1);
        }
      },
      "label of the claim, for people and programs: team=vision; zone=a is what the placer near "
      "goes by; repeat it for several");
  command->add_option_function<std::string>(
      "--begin", [flags](const std::string& text) { flags->request.set_begin(text); },
      "time before which the claim does not start: \"2026-12-01 08:00 Europe/Berlin\", "
      "2026-12-01T08:00+01:00; nothing is waited for then (default: at once)");
  command->add_option_function<std::string>(
      "--reservation", [flags](const std::string& text) { flags->request.set_reservation(text); },
      "reservation whose GPUs to use (default: none)");
  command->add_option_function<std::string>(
      "--host", [flags](const std::string& text) { flags->request.set_host(text); },
      "the only host to use");
  command->add_option_function<std::string>(
      "--placer", [flags](const std::string& text) { flags->request.set_placer(text); },
      "placement: " + pool::PlacersText() + " (default: its group's, else the pool's)");
}

// What is asked for: of `request` and `plan`.
void AddAskFlags(CLI::App* command, const std::shared_ptr<RequestFlags>& flags) {
  AddQuotaFlags(command, &flags->quota);
  command
      ->add_option_function<std::string>(
          "--tflops",
          [flags](const std::string& text) {
            double tflops = 0;
            if (ReadTflops(text, &tflops)) flags->request.set_tflops(tflops);
          },
          "TFLOPS of each GPU, instead of --share: the share follows from its model, by the table "
          "of its group")
      ->check(CheckTflops);
  command->add_option("--count", flags->count, "number of GPUs, all on one host")
      ->capture_default_str();
  command
      ->add_option(
          "--gang", flags->gang,
          "number of such claims that start together or not at all, on one host or several")
      ->check(CLI::Range(1, 256));
  command->add_option("--seats", flags->seats, "sessions at a time (default: 64)");
  command
      ->add_option("--lifetime", flags->lifetime,
                   "seconds after which the claim ends (default: none)")
      ->check(CheckSeconds);
  command
      ->add_option_function<int32_t>(
          "--queue-priority",
          [flags](int32_t priority) { flags->request.set_queue_priority(priority); },
          "place in the queue: the higher is placed first (default: 0); --priority is the class of "
          "device time")
      ->check(CheckQueuePriority());
  command->add_flag_callback(
      "--preemptible", [flags] { flags->request.set_preemptible(true); },
      "let claims of a higher queue priority have its place, after a warning");
  command->add_option_function<std::string>(
      "--project", [flags](const std::string& text) { flags->request.set_project(text); },
      "project whose quota the claim counts against (default: default)");
  command->add_option_function<std::string>(
      "--group", [flags](const std::string& text) { flags->request.set_group(text); },
      "resource group on whose hosts it is to be (default: its reservation's, else default)");
  command
      ->add_option_function<std::vector<std::string>>(
          "--or",
          [flags](const std::vector<std::string>& sizes) {
            for (const std::string& text : sizes)
              ParseSize(text, flags->request.add_alternatives());
          },
          "what to take where there is no room for the rest: "
          "gpus=2,mem=40GiB,share=50%,model=A100, or tflops=40 instead of the share; "
          "repeat it for several, the best first")
      ->check(CheckSize);
  AddPlaceFlags(command, flags);
}

void AddRequest(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("request", "Asks for a claim, and waits until it is bound");
  auto pool = AddPoolOptions(command);
  auto flags = std::make_shared<RequestFlags>();
  AddAskFlags(command, flags);
  command->add_option("--wait", flags->wait, "seconds to wait for a place")
      ->check(CheckSeconds)
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  command->add_flag("--keep", flags->keep,
                    "leave a claim that got no place in the queue (default: release it and exit "
                    "with 5)");
  command->footer(
      "Without --mem it is a whole GPU, without --net what its host allows.\n"
      "Example: farcall pool request --mem 4GiB --share 25%\n"
      "         farcall pool request --mem 80GiB --or gpus=2,mem=40GiB\n"
      "         FARCALL_CLAIM=c-... FARCALL_ENDPOINT=pool://127.0.0.1:7718 ./a.out");
  command->callback([pool, flags, &exit_code] { exit_code = Request(*pool, *flags); });
}

int Plan(const PoolOptions& pool, RequestFlags& flags) {
  Fill(flags);
  pb::Explanation told;
  pb::GangRequest gang;
  gang.set_members(flags.gang);
  *gang.mutable_member() = flags.request;
  const int code = flags.gang != 0 ? Call(pool, "POST", "/v1/gangs:plan", &gang, &told)
                                   : Call(pool, "POST", "/v1/claims:plan", &flags.request, &told);
  if (code != 0) return code;
  if (!pool.json) PrintPlan(told);
  return told.fits_now() ? kExitOk : kExitNoPlace;
}

void AddPlan(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "plan", "Says whether a claim would fit now, where, and else when; makes none");
  auto pool = AddPoolOptions(command);
  auto flags = std::make_shared<RequestFlags>();
  AddAskFlags(command, flags);
  command->footer(
      "It exits with 5 if the claim would have to wait.\n"
      "Example: farcall pool plan --gang 4 --count 2");
  command->callback([pool, flags, &exit_code] { exit_code = Plan(*pool, *flags); });
}

void AddOfClaim(CLI::App& app, int& exit_code, const char* name, const char* does,
                const std::function<int(const PoolOptions&, const std::string&)>& run) {
  CLI::App* command = app.add_subcommand(name, does);
  auto pool = AddPoolOptions(command);
  auto id = std::make_shared<std::string>();
  command->add_option("name", *id, "name of the claim or host")->required()->check(CheckName);
  command->callback([pool, id, run, &exit_code] { exit_code = run(*pool, *id); });
}

struct SetFlags {
  std::string id;
  QuotaFlags quota;
  double lifetime = -1;
  std::optional<int32_t> queue_priority;
  std::optional<bool> preemptible;
};

int Set(const PoolOptions& pool, const SetFlags& flags) {
  pb::ClaimChange change;
  Fill(flags.quota, &change);
  if (flags.lifetime >= 0) change.set_lifetime_ms(Milliseconds(flags.lifetime));
  if (flags.queue_priority) change.set_queue_priority(*flags.queue_priority);
  if (flags.preemptible) change.set_preemptible(*flags.preemptible);
  pb::Claim claim;
  int code = Call(pool, "PATCH", "/v1/claims/" + flags.id, &change, &claim);
  if (code == 0 && !pool.json) Print(claim);
  return code;
}

void AddSet(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("set", "Changes what a claim may use, while it is used");
  auto pool = AddPoolOptions(command);
  auto flags = std::make_shared<SetFlags>();
  command->add_option("name", flags->id, "name of the claim")->required()->check(CheckName);
  AddQuotaFlags(command, &flags->quota);
  command
      ->add_option("--lifetime", flags->lifetime,
                   "seconds after the request at which the claim ends; 0: never")
      ->check(CheckSeconds);
  command
      ->add_option("--queue-priority", flags->queue_priority,
                   "place in the queue: the higher is placed first")
      ->check(CheckQueuePriority());
  command->add_option(
      "--preemptible", flags->preemptible,
      "whether claims of a higher queue priority may have its place: true or false");
  command->footer("Example: farcall pool set c-0123456789abcdef --share 50%");
  command->callback([pool, flags, &exit_code] { exit_code = Set(*pool, *flags); });
}

int Release(const PoolOptions& pool, const std::string& id) {
  pb::Claim claim;
  int code = Call(pool, "DELETE", "/v1/claims/" + id, nullptr, &claim);
  if (code == 0 && !pool.json) Print(claim);
  return code;
}

int Explain(const PoolOptions& pool, const std::string& id) {
  pb::Explanation told;
  int code = Call(pool, "POST", "/v1/claims/" + id + ":explain", nullptr, &told);
  if (code == 0 && !pool.json)
    std::printf("%s: %s\n", Printable(told.state()).c_str(),
                Printable(told.why(), kMaxMessageBytes).c_str());
  if (code != 0 || pool.json) return code;
  if (!told.group().empty() && told.group() != "default")
    std::printf("  group: %s\n", Printable(told.group()).c_str());
  if (!told.rule().empty())
    std::printf("  order: %s\n", Printable(told.rule(), kMaxMessageBytes).c_str());
  if (!told.fits_if().empty())
    std::printf("  starts if: %s\n", Printable(told.fits_if(), kMaxMessageBytes).c_str());
  if (!told.placement().empty())
    std::printf("  placement: %s\n", Printable(told.placement(), kMaxMessageBytes).c_str());
  PrintTflops(told);
  PrintAlternatives(told);
  for (const std::string& claim : told.preempts())
    std::printf("  leaves for it: %s\n", Printable(claim).c_str());
  PrintExpected(told);
  return code;
}

int Drain(const PoolOptions& pool, const std::string& name, const char* verb) {
  pb::Host host;
  int code = Call(pool, "POST", "/v1/hosts/" + name + ":" + verb, nullptr, &host);
  if (code == 0 && !pool.json)
    std::printf("%s  %s  %u claim(s)\n", Printable(host.name()).c_str(),
                Printable(host.state()).c_str(), host.claims());
  return code;
}

int List(const PoolOptions& pool, bool hosts) {
  pb::ClaimList claims;
  pb::HostList list;
  if (!hosts) {
    int code = Call(pool, "GET", "/v1/claims?limit=1000", nullptr, &claims);
    if (code != 0 || pool.json) return code;
    for (const pb::Claim& claim : claims.claims()) Print(claim);
    if (claims.claims_size() == 0) std::printf("no claims\n");
    return 0;
  }
  int code = Call(pool, "GET", "/v1/hosts", nullptr, &list);
  if (code != 0 || pool.json) return code;
  for (const pb::Host& host : list.hosts()) {
    std::printf("%s  %s%s  %u claim(s)%s\n", Printable(host.name()).c_str(),
                Printable(host.state()).c_str(), host.cordoned() ? ", cordoned" : "", host.claims(),
                host.reason().empty()
                    ? ""
                    : ("  (" + Printable(host.reason(), kMaxMessageBytes) + ")").c_str());
    for (const pb::Gpu& gpu : host.gpus())
      std::printf("  %u  %s  %s of %s GiB  %g %%  %u claim(s)\n", gpu.index(),
                  Printable(gpu.name()).c_str(), Gib(gpu.used_bytes()).c_str(),
                  Gib(std::max(gpu.memory_bytes(), gpu.lendable_bytes())).c_str(),
                  gpu.used_milli() / 10.0, gpu.claims());
  }
  if (list.hosts_size() == 0) std::printf("no hosts\n");
  return 0;
}

}  // namespace

void AddPoolVerbs(CLI::App& app, int& exit_code) {
  AddRequest(app, exit_code);
  AddPlan(app, exit_code);
  AddSet(app, exit_code);
  AddOfClaim(app, exit_code, "release", "Ends a claim", Release);
  AddOfClaim(app, exit_code, "explain", "Says why a claim waits, or where it is", Explain);
  for (const char* verb : {"drain", "cordon", "uncordon"})
    AddOfClaim(app, exit_code, verb,
               *verb == 'd'   ? "Lets a host's claims end and gives it no new ones"
               : *verb == 'c' ? "Gives a host no new claims"
                              : "Lets a host have claims again",
               [verb](const PoolOptions& pool, const std::string& name) {
                 return Drain(pool, name, verb);
               });
  CLI::App* list = app.add_subcommand("list", "Lists claims, or hosts with their GPUs");
  auto pool = AddPoolOptions(list);
  auto hosts = std::make_shared<bool>(false);
  list->add_flag("--hosts", *hosts, "list hosts instead of claims");
  list->callback([pool, hosts, &exit_code] { exit_code = List(*pool, *hosts); });
}

}  // namespace farcall::cli
