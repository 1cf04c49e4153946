// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/settings/tls.h"

#include <dlfcn.h>

#include <string>

#include "client-shim/tls/tls_library.h"

namespace farcall::client {

namespace {

// Leaked: a link may dial until the process ends.
const TlsFiles* g_files = nullptr;

std::string Beside(const char* name) {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&Beside), &self) == 0 || self.dli_fname == nullptr)
    return name;
  const std::string path = self.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? name : path.substr(0, slash + 1) + name;
}

TlsDial Load(std::string* why) {
  // RTLD_LOCAL: its OpenSSL is nobody else's.
  void* library = dlopen(Beside(kTlsLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = library == nullptr ? nullptr : dlsym(library, kTlsFunction);
  if (function == nullptr) {
    const char* error = dlerror();
    *why = error == nullptr ? "no such function" : error;
  }
  return reinterpret_cast<TlsDial>(function);
}

Result<std::unique_ptr<Channel>> Dial(const Url& url, Clock::time_point deadline) {
  static std::string why;
  static const TlsDial dial = Load(&why);
  if (dial == nullptr)
    return Status(Code::kUnsupported, "endpoint \"" + url.text + "\": no TLS here: " + why);
  Status status;
  Channel* channel = dial(url, *g_files, deadline, &status);
  if (channel == nullptr) return status;
  return std::unique_ptr<Channel>(channel);
}

}  // namespace

void UseTls(const Settings& settings) {
  g_files = new TlsFiles{settings.Find("cert").value, settings.Find("key").value,
                         settings.Find("ca").value, ""};
  AddTransport("tls", &Dial, nullptr);
}

}  // namespace farcall::client
