// SPDX-License-Identifier: Apache-2.0
// `farcall doctor`: step by step what a user would have to check, a remedy for each finding.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/device_list.h"
#include "cli/doctor/doctor_program.h"
#include "cli/find_server.h"
#include "cli/programs/client_environment.h"
#include "client-shim/core/settings/settings.h"
#include "client-shim/core/settings/transport_wish.h"
#include "proto/handshake/fabric_transport.h"
#include "proto/wire.h"
#include "transport/channel.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/ucx/ucx_api.h"
#include "transport/url.h"
#include "transport/verbs/verbs_channel.h"

namespace farcall::cli {

namespace {

using client::Setting;
using client::Settings;

// What won, and where it stands. The token's value is nobody's to read.
void TellSettings(const Settings& settings, const std::string& endpoint, Findings& findings) {
  if (!endpoint.empty()) findings.Note("endpoint = " + endpoint + "  (--endpoint)");
  for (std::string_view name : Settings::Names()) {
    Setting setting = settings.Find(name);
    if (setting.value.empty() || (name == "endpoint" && !endpoint.empty())) continue;
    findings.Note(std::string(name) + " = " + (name == "token" ? "(set)" : setting.value) + "  (" +
                  setting.source + ")");
  }
}

void ExamineLibraries(Findings& findings) {
  const std::string folder = DriverLibraryFolder();
  findings.Begin("libraries");
  findings.Say(!folder.empty(), "driver library " + (folder.empty() ? "missing" : "in " + folder),
               "install again, or build the target farcall_shim_cuda");
}

Settings ExamineClient(const std::string& endpoint, Findings& findings) {
  Settings settings = Settings::Load(Settings::Files());
  findings.Begin("settings", true);
  findings.Say(settings.error().empty(),
               settings.error().empty() ? "settings" : "settings: " + settings.error(),
               "correct or remove that file; text values need quotes");
  TellSettings(settings, endpoint, findings);
  return settings;
}

void ExamineToken(const Settings& settings, Findings& findings) {
  findings.Begin("token");
  const Result<std::string> token = settings.FindToken();
  const bool is_file = settings.Find("token").value.empty();
  const Setting source = settings.Find(is_file ? "token_file" : "token");
  if (!findings.Say(token.ok(), token.ok() ? "token" : token.status().message(),
                    "make the file readable for this user, or correct its path"))
    return;
  findings.Sum(token->empty() ? "none; a server on the loopback needs none"
                              : "set  (" + source.source + ")");
}

// By the cause, which the message tells; "": what to do stands in it.
std::string RemedyOf(const Status& status, const FoundServer& server) {
  switch (status.code()) {
    case Code::kUnavailable:
    case Code::kTimeout:
    case Code::kDisconnected:
      return status.message().find(';') != std::string::npos
                 ? ""
                 : "check the address and the network to " + server.url;
    default:
      return "";
  }
}

// Why a session would not go through the server's shared memory; empty: it would.
std::string WhyNotSharedMemory(const FoundServer& server, const Welcome& welcome,
                               client::TransportWish wish, bool is_of_this_host) {
  const std::string& path = welcome.shm_path;
  if (path.empty()) return "the server offers no shared memory (serve --shm auto does)";
  if (!client::WantsSharedMemory(server.url, wish))
    return "FARCALL_TRANSPORT asks for this transport";
  if (!client::MayOpenSocketOf(wish, is_of_this_host))
    return "the server has an address of its own; FARCALL_TRANSPORT=auto would try " + path;
  return Dial("shm://" + path, Clock::now() + std::chrono::seconds(1)).status().message();
}

// Of a session that asks for a fabric: "ucx, UCX 1.13.1", "verbs, mlx5_0:1:3 (...)", or why it
// would fail.
Result<std::string> ExamineFabric(TransportKind kind, const Welcome& welcome) {
  const std::string name = FabricName(kind);
  std::string here;
  if (kind == kVerbsTransport) {
    Result<VerbsDevice*> device = VerbsDeviceOfProcess();
    if (!device.ok()) return device.status();
    here = "verbs, " + VerbsDeviceText(**device);
  } else {
    Result<const UcxApi*> api = LoadUcx();
    if (!api.ok()) return Status(api.status().code(), "ucx: " + api.status().message());
    here = "ucx, UCX " + UcxVersion(**api);
  }
  if (!UsesFabric(kind, welcome))
    return Status(Code::kUnsupported, name + ": the server does not offer it (`farcall serve --" +
                                          name +
                                          (kind == kVerbsTransport ? " auto` does)" : "` does)"));
  return here + " on this side";
}

void ExamineTransport(const FoundServer& server, const Welcome& welcome, bool is_of_this_host,
                      const Settings& settings, Findings& findings) {
  findings.Begin("transport");
  const client::Setting setting = settings.Find("transport");
  std::optional<client::TransportWish> wish = client::kDefaultTransport;
  if (!setting.value.empty()) wish = client::ParseTransport(setting.value);
  if (!wish) {
    findings.Say(false, setting.source + "=" + setting.value + " is no transport",
                 std::string("write ") + client::kTransportNames);
    return;
  }
  const Status fits = client::CheckTransport(server.url, *wish);
  const std::string scheme = server.url.substr(0, server.url.find("://"));
  const TransportKind fabric = client::WantedFabric(server.url, *wish);
  if (fits.ok() && IsFabric(fabric)) {
    const Result<std::string> used = ExamineFabric(fabric, welcome);
    const std::string found = used.ok() ? *used : used.status().message();
    findings.Say(used.ok(), "transport " + found);
    findings.Sum(found);
    return;
  }
  const std::string why =
      scheme == "tcp" ? WhyNotSharedMemory(server, welcome, *wish, is_of_this_host) : "";
  const std::string found = scheme != "tcp" ? scheme
                            : why.empty()   ? "shm, " + welcome.shm_path
                                            : scheme + ": " + why;
  findings.Say(fits.ok(), fits.ok() ? "transport " + found : fits.message());
  findings.Sum(found);
}

void ExamineServer(const FoundServer& server, const Settings& settings, Findings& findings) {
  findings.Begin("server");
  if (server.is_pool()) {
    const Status asked = AskPool(server);
    findings.Say(asked.ok(), asked.ok() ? "the pool answers" : asked.message(),
                 RemedyOf(asked, server));
    return;
  }
  bool is_of_this_host = false;
  Result<QueryAnswer> answer = AskServer(server, &is_of_this_host);
  if (!findings.Say(answer.ok(),
                    answer.ok() ? "server " + answer->welcome.server_version + " on " +
                                      answer->welcome.server_host + ", wire " +
                                      std::to_string(kWireMajor) + "." + std::to_string(kWireMinor)
                                : answer.status().message(),
                    RemedyOf(answer.status(), server)))
    return;
  const Welcome& welcome = answer->welcome;
  if (welcome.server_version != FARCALL_VERSION)
    findings.Warn("server " + welcome.server_version + ", client " FARCALL_VERSION,
                  "install the same release on both sides");
  ExamineTransport(server, welcome, is_of_this_host, settings, findings);
  findings.Begin("devices");
  findings.Say(!welcome.devices.empty(),
               std::to_string(welcome.devices.size()) + " " + welcome.device_kind + " device(s)",
               "the server sees no device: nvidia-smi there, or serve --device cpu");
  findings.Sum(std::to_string(welcome.devices.size()) + " (" + welcome.device_kind +
               "): " + DevicesText(welcome));
  for (const std::string& line : DeviceLines(*answer)) findings.Note(line);
  findings.Attach("devices", DeviceList(server, *answer));
}

struct DoctorFlags {
  bool json = false, verbose = false;
  ProgramQuestion question;
};

// The command to go on with.
std::string NextCommand(const ProgramQuestion& question) {
  std::string next = "farcall run";
  if (!question.device.empty()) next += " --device " + question.device;
  if (question.thin) next += " --thin";
  next += " --";
  if (question.command.empty()) return next + " ./a.out";
  for (const std::string& word : question.command) next += " " + word;
  return next;
}

// Where the program is to run.   False: nowhere
bool ExamineEndpoint(ProgramQuestion& question, const Settings& settings, Findings& findings) {
  findings.Begin("endpoint");
  Result<FoundServer> server = FindServer(question.endpoint, settings);
  if (!server.ok()) {
    // What is wrong with the token is told of the token.
    server = FindServerOnly(question.endpoint, settings);
    if (!findings.Say(server.ok(), server.ok() ? "endpoint" : server.status().message()))
      return false;
  }
  if (server->url.empty() && !question.command.empty()) {
    findings.Say(true, "none: a private server, as `farcall run` starts it");
    return true;
  }
  if (!findings.Say(!server->url.empty(),
                    server->url.empty() ? "no endpoint" : "endpoint " + server->url,
                    "set FARCALL_ENDPOINT=tcp://host:port, or start `farcall serve` here"))
    return false;
  findings.Sum(server->url + "  (" + server->source + ")");
  question.endpoint = server->url;
  ExamineToken(settings, findings);
  for (const std::string& url : SplitEndpoints(server->url))
    if (findings.good())
      ExamineServer({url, server->source, server->token, server->transport}, settings, findings);
  return findings.good();
}

int Doctor(DoctorFlags flags) {
  Findings findings(flags.json      ? Findings::Form::kJson
                    : flags.verbose ? Findings::Form::kAll
                                    : Findings::Form::kTopics);
  ProgramQuestion& question = flags.question;
  if (!question.endpoint.empty() && !question.device.empty()) {
    std::fprintf(stderr, "farcall doctor: give --endpoint or --device, not both\n");
    return 2;
  }
  const std::string endpoint = question.endpoint;
  const Settings settings = ExamineClient(endpoint, findings);
  // A broken file says nothing of where to go.
  bool goes_on = settings.error().empty();
  if (goes_on && question.device.empty()) goes_on = ExamineEndpoint(question, settings, findings);
  ExamineLibraries(findings);
  if (!question.command.empty() && goes_on && findings.good()) {
    findings.Begin("program");
    ExamineProgram(question, findings);
  }
  findings.Finish(NextCommand(question));
  return findings.good() ? 0 : 1;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "Checks settings, connection and server, and what CMD loads");
  doctor->add_option("--endpoint", flags->question.endpoint, kServerHelp);
  doctor->add_option("--device", flags->question.device,
                     "device of a private server for CMD: auto, cuda, cpu or dry");
  doctor->add_option("--seconds", flags->question.seconds, "seconds after which CMD is stopped")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  doctor->add_flag(
      "--thin", flags->question.thin,
      "start CMD as `farcall run --thin` does, and check that no library of NVIDIA's is loaded");
  doctor->add_flag(
      "--no-audit", flags->question.no_audit,
      "with --thin: set LD_LIBRARY_PATH only, to see what is found before Farcall's libraries");
  doctor->add_flag(
      "--audit", flags->question.audit,
      "without --thin: start CMD as `farcall run` does, with Farcall's libraries before RPATHs");
  doctor->add_flag("-v,--verbose", flags->verbose, "print each finding and setting");
  doctor->add_flag("--json", flags->json, "print the findings as JSON");
  doctor->add_option("command", flags->question.command,
                     "a program to run and examine, with its arguments");
  doctor->positionals_at_end();
  doctor->footer(
      "Example: farcall doctor --audit --endpoint tls://gpu-host:7717 -- python -c 'import torch; "
      "torch.cuda.init()'");
  doctor->callback([flags, &exit_code] { exit_code = Doctor(*flags); });
}

}  // namespace farcall::cli
