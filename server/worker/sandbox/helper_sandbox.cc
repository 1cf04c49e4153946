// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/helper_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "server/confine/landlock.h"
#include "server/worker/sandbox/sandbox.h"
#include "server/worker/sandbox/system_calls.h"
#include "server/worker/sandbox/worker_files.h"

namespace farcall::server {

namespace {

constexpr char kResolver[] = "/etc/resolv.conf";
constexpr const char* kNames[] = {
    kResolver,         "/etc/hosts",         "/etc/host.conf", "/etc/nsswitch.conf",
    "/etc/gai.conf",   "/etc/services",      "/etc/protocols", "/run/systemd/resolve",
    "/run/resolvconf", "/run/NetworkManager"};
// Not the folders above, which hold keys.
constexpr const char* kCertificates[] = {"/etc/ssl/certs",
                                         "/etc/ssl/cert.pem",
                                         "/etc/ssl/ca-bundle.pem",
                                         "/etc/ssl/openssl.cnf",
                                         "/etc/pki/tls/certs",
                                         "/etc/pki/tls/openssl.cnf",
                                         "/etc/pki/ca-trust",
                                         "/etc/ca-certificates",
                                         "/etc/crypto-policies",
                                         "/usr/share/ca-certificates",
                                         "/usr/local/share/ca-certificates",
                                         "/usr/share/grpc",
                                         "/usr/share/zoneinfo",
                                         "/var/lib/ca-certificates"};
constexpr const char* kCertificateVariables[] = {"SSL_CERT_FILE", "SSL_CERT_DIR",
                                                 "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"};

Status ConfineHelperFiles(const HelperRules& own) {
  using Access = LandlockRules::Access;
  LandlockRules rules(own.uses_network ? LandlockRules::Isolation::kProcesses
                                       : LandlockRules::Isolation::kAll);
  AllowProgram(&rules);
  rules.Allow("/proc/self", Access::kReadWrite);
  for (const char* file : kNames) rules.Allow(file, Access::kRead);
  for (const char* file : kCertificates) rules.Allow(file, Access::kRead);
  for (const char* name : kCertificateVariables)
    if (const char* file = std::getenv(name); file != nullptr) rules.Allow(file, Access::kRead);
  for (const std::string& file : own.readable) rules.Allow(file, Access::kRead);
  rules.Allow(own.writable, Access::kReadWrite);
  return rules.Enforce();
}

bool CanRead(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) close(file);
  return file >= 0 || errno != EACCES;
}

}  // namespace

Status ConfineHelper(const HelperRules& rules) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  HideMemory();
  rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(SIGPIPE, SIG_IGN);
  if (LandlockRules::Version() > 0) FARCALL_TRY(ConfineHelperFiles(rules));
  // A port below 1024 for metrics.
  DropCapabilities(rules.uses_network ? uint64_t{1} << CAP_NET_BIND_SERVICE : 0);
  CallRules calls;
  calls.sockets = rules.uses_network ? CallRules::Sockets::kNetwork : CallRules::Sockets::kAccept;
  calls.reports = ReportsCalls();
  return FilterSystemCalls(calls);
}

bool CanReadStill(const std::vector<std::string>& files) {
  for (const std::string& file : files)
    if (!CanRead(file.c_str())) return false;
  return CanRead(kResolver);
}

}  // namespace farcall::server
