// SPDX-License-Identifier: Apache-2.0
// A client's settings: the environment, then the user's file, then the machine's. The command line
// arrives as environment.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proto/status.h"

namespace farcall::client {

struct Setting {
  std::string value;   // "" = not set
  std::string source;  // the variable's name or the file's path
};

class Settings {
 public:
  // Files are looked at in order; those that do not exist are no error.
  static Settings Load(const std::vector<std::string>& files);
  // $XDG_CONFIG_HOME/farcall/config.toml or ~/.config/farcall/config.toml,
  // /etc/farcall/config.toml.
  static std::vector<std::string> Files();

  // `name` as the files spell it: "token_file" is FARCALL_TOKEN_FILE in the environment. In a path
  // "~/" is the home folder; in a file it is relative to that file's folder.
  Setting Find(std::string_view name) const;
  static const std::vector<std::string_view>& Names();
  // FARCALL_CACHE_DIR, else $XDG_CACHE_HOME/farcall or ~/.cache/farcall; "": none.
  std::string CacheFolder() const;
  // The server, written out (transport/url.h); "" with an empty source: none is named.
  //   Errors  kInvalid (no such endpoint), with where it was set
  Result<Setting> FindEndpoint() const;
  // `token`, or the first line of `token_file`; "": neither is set.
  //   Errors  kInvalid (that file cannot be read), with the system's reason
  Result<std::string> FindToken() const;
  // One line if a file cannot be used: the file, what is wrong, what would be right.
  const std::string& error() const { return error_; }

 private:
  bool LoadFile(const std::string& path);
  Status LoadText(std::string_view text, const std::string& path);
  std::map<std::string, Setting, std::less<>> from_files_;
  std::string error_;
};

// Names a server in the names of what is kept of its answers: no server's answers serve another.
//   endpoint  as it was asked for: a pool's hosts are told apart by theirs (answer_cache.h)
//   token     what the server had to know; "": whoever answers there
// `farcall run` starts a server for each run and names it in FARCALL_PRIVATE_SERVER: all such are
// one.
std::string ServerCacheScope(const std::string& endpoint, const std::string& token);

// Where in a cache the server's nvvm/libdevice is kept (server_file.h): what XLA calls its CUDA
// data directory.
inline std::string CudaDataFolder(const std::string& cache, const std::string& scope) {
  return cache + "/cuda/" + scope;
}

}  // namespace farcall::client
