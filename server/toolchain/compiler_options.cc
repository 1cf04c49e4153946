// SPDX-License-Identifier: Apache-2.0
#include "server/toolchain/compiler_options.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace farcall::server {

namespace {

using Texts = std::vector<std::shared_ptr<const std::string>>;

enum class Takes {
  kNothing,  // or a word after '='
  kWord,     // after '=', or as the next option
  kNumber,   // joined to the name: -O3
  kSymbol,   // the name of a kernel or variable, after '='
  kMacro,    // joined (-DNAME=value), after '=', or as the next option
  kPtxas,    // an option of the assembler's, after '=' or as the next one
  kHeader,   // the name of a file that came with the program, after '=' or as the next option
};

// By both its names, with one dash or two.
struct Row {
  std::string_view name, short_name;
  Takes takes = Takes::kNothing;
};

// NVRTC's, as its documentation lists them, without those that name files: -I, --pch and its like,
// --time, --fdevice-time-trace. The client answers these itself where it can.
constexpr Row kNvrtc[] = {
    {"Ofast-compile", "Ofc", Takes::kWord},
    {"brief-diagnostics", "brief-diag", Takes::kWord},
    {"builtin-initializer-list", "", Takes::kWord},
    {"builtin-move-forward", "", Takes::kWord},
    {"define-macro", "D", Takes::kMacro},
    {"device-as-default-execution-space", "default-device"},
    {"device-c", "dc"},
    {"device-debug", "G"},
    {"device-float128", ""},
    {"device-int128", ""},
    {"device-stack-protector", "", Takes::kWord},
    {"device-w", "dw"},
    {"diag-error", "", Takes::kWord},
    {"diag-suppress", "", Takes::kWord},
    {"diag-warn", "", Takes::kWord},
    {"disable-warnings", "w"},
    {"discard-value-names", "", Takes::kWord},
    {"display-error-number", "err-no"},
    {"dlink-time-opt", "dlto"},
    {"dopt", "", Takes::kWord},
    {"extensible-whole-program", "ewp"},
    {"extra-device-vectorization", ""},
    {"fdevice-syntax-only", ""},
    {"fmad", "", Takes::kWord},
    {"frandom-seed", "", Takes::kWord},
    {"ftz", "", Takes::kWord},
    {"gen-opt-lto", ""},
    {"generate-line-info", "lineinfo"},
    {"gpu-architecture", "arch", Takes::kWord},
    {"jump-table-density", "jtd", Takes::kWord},
    {"maxrregcount", "", Takes::kWord},
    {"minimal", ""},
    {"modify-stack-limit", "", Takes::kWord},
    {"no-cache", ""},
    {"no-display-error-number", "no-err-no"},
    {"no-source-include", ""},
    {"optimization-info", "opt-info", Takes::kWord},
    {"optix-ir", ""},
    {"pre-include", "include", Takes::kHeader},
    {"prec-div", "", Takes::kWord},
    {"prec-sqrt", "", Takes::kWord},
    {"ptxas-options", "Xptxas", Takes::kPtxas},
    {"relocatable-device-code", "rdc", Takes::kWord},
    {"restrict", ""},
    {"split-compile", "", Takes::kWord},
    {"std", "", Takes::kWord},
    {"undefine-macro", "U", Takes::kMacro},
    {"use_fast_math", ""},
    {"version-ident", "", Takes::kWord},
};

constexpr Row kNvJitLink[] = {
    {"Ofast-compile", "Ofc", Takes::kWord},
    {"O", "", Takes::kNumber},
    {"Xptxas", "", Takes::kPtxas},
    {"arch", "", Takes::kWord},
    {"device-stack-protector", ""},
    {"fma", "", Takes::kWord},
    {"ftz", "", Takes::kWord},
    {"g", ""},
    {"jump-table-density", "", Takes::kWord},
    {"kernels-used", "", Takes::kSymbol},
    {"lineinfo", ""},
    {"lto", "dlto"},
    {"maxrregcount", "", Takes::kWord},
    {"no-cache", ""},
    {"optimize-unused-variables", ""},
    {"prec-div", "", Takes::kWord},
    {"prec-sqrt", "", Takes::kWord},
    {"ptx", ""},
    {"split-compile", "", Takes::kWord},
    {"split-compile-extended", "", Takes::kWord},
    {"time", ""},
    {"variables-used", "", Takes::kSymbol},
    {"verbose", ""},
};

// The assembler's, which both compilers pass on: one option each, its value after '='.
constexpr Row kPtxas[] = {
    {"O", "", Takes::kNumber},
    {"Ofast-compile", "Ofc"},
    {"allow-expensive-optimizations", ""},
    {"compile-only", "c"},
    {"def-load-cache", "dlcm"},
    {"def-store-cache", "dscm"},
    {"device-debug", "g"},
    {"device-function-maxrregcount", "func-maxrregcount"},
    {"device-stack-protector", ""},
    {"disable-optimizer-constants", "disable-optimizer-consts"},
    {"disable-warnings", "w"},
    {"dont-merge-basicblocks", "no-bb-merge"},
    {"extensible-whole-program", "ewp"},
    {"fmad", ""},
    {"force-load-cache", "flcm"},
    {"force-store-cache", "fscm"},
    {"g-tensor-memory-access-check", "g-tmem-access-check"},
    {"generate-line-info", "lineinfo"},
    {"gno-tensor-memory-access-check", "gno-tmem-access-check"},
    {"legacy-bar-warp-wide-behavior", ""},
    {"make-errors-visible-at-exit", ""},
    {"maxntid", ""},
    {"maxrregcount", ""},
    {"minnctapersm", ""},
    {"opt-level", ""},
    {"optimize-float-atomics", "opt-fp-atomics"},
    {"override-directive-values", ""},
    {"position-independent-code", "pic"},
    {"preserve-relocs", ""},
    {"register-usage-level", "regUsageLevel"},
    {"return-at-end", "ret-end"},
    {"sp-bounds-check", ""},
    {"split-compile", ""},
    {"suppress-async-bulk-multicast-advisory-warning", ""},
    {"suppress-debug-info", ""},
    {"suppress-double-demote-warning", ""},
    {"suppress-sparse-mma-advisory-info", ""},
    {"suppress-stack-size-warning", ""},
    {"verbose", "v"},
    {"warn-on-double-precision-use", "warn-double-usage"},
    {"warn-on-local-memory-usage", "warn-lmem-usage"},
    {"warn-on-spills", "warn-spills"},
    {"warning-as-error", "Werror"},
};

bool ConsistsOf(std::string_view text, std::string_view also) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           also.find(c) != std::string_view::npos;
  });
}

// No slash: no word is a path.
bool IsWord(std::string_view text) {
  return ConsistsOf(text, "_.,+-");
}

bool IsSymbol(std::string_view text) {
  return ConsistsOf(text, "_.,$*<>:()&[]~+-");
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() < 4 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The compiler gets a C string: what stood behind a NUL would be checked and not given.
bool IsText(std::string_view text) {
  return text.find('\0') == std::string_view::npos;
}

// Without its dashes, of which there is one at least; empty: this is no option.
std::string_view Name(std::string_view option) {
  if (option.starts_with("--")) return option.substr(2);
  return option.starts_with("-") ? option.substr(1) : std::string_view();
}

// The value in the same text, after `name`. False: this is another option.
bool Split(std::string_view text, std::string_view name, const Row& row, bool* has_value,
           std::string_view* value) {
  if (name.empty() || !text.starts_with(name)) return false;
  std::string_view rest = text.substr(name.size());
  *has_value = !rest.empty();
  *value = rest;
  if (row.takes == Takes::kNumber) return *has_value;
  if (rest.starts_with("=")) {
    *value = rest.substr(1);
    return true;
  }
  return rest.empty() || (row.takes == Takes::kMacro && name.size() == 1);  // -DNAME
}

bool IsPtxasOption(std::string_view option) {
  const std::string_view text = Name(option);
  return std::any_of(std::begin(kPtxas), std::end(kPtxas), [&](const Row& row) {
    bool has_value = false;
    std::string_view value;
    for (std::string_view name : {row.name, row.short_name}) {
      if (!Split(text, name, row, &has_value, &value)) continue;
      if (!has_value) return true;
      if (row.takes == Takes::kNumber ? IsNumber(value) : IsWord(value)) return true;
    }
    return false;
  });
}

bool MayHave(const Row& row, std::string_view value, const Texts& headers) {
  switch (row.takes) {
    case Takes::kNothing:
    case Takes::kWord:
      return IsWord(value);
    case Takes::kNumber:
      return IsNumber(value);
    case Takes::kSymbol:
      return IsSymbol(value);
    case Takes::kMacro:
      return IsText(value);
    case Takes::kPtxas:
      return IsPtxasOption(value);
    case Takes::kHeader:
      return std::any_of(headers.begin(), headers.end(),
                         [&](const auto& header) { return *header == value; });
  }
  return false;
}

// Whether the value may be the next option's text.
bool TakesNext(Takes takes) {
  return takes == Takes::kWord || takes == Takes::kMacro || takes == Takes::kPtxas ||
         takes == Takes::kHeader;
}

// The compiler must take it for a value as well: what looks like an option is none, except to the
// assembler.
bool MayBeNext(Takes takes, std::string_view value) {
  return takes == Takes::kPtxas || (!value.starts_with("-") && !value.starts_with("@"));
}

// How many of `options` from the first on are accepted together; 0: the first is refused.
size_t Accepted(std::span<const Row> rows,
                std::span<const std::shared_ptr<const std::string>> options, const Texts& headers) {
  const std::string_view text = Name(*options[0]);
  for (const Row& row : rows) {
    for (std::string_view name : {row.name, row.short_name}) {
      bool has_value = false;
      std::string_view value;
      if (!Split(text, name, row, &has_value, &value)) continue;
      if (has_value) return MayHave(row, value, headers) ? 1 : 0;
      if (!TakesNext(row.takes)) return row.takes == Takes::kNothing ? 1 : 0;
      // Alone at the end it is for the compiler to judge.
      if (options.size() == 1) return 1;
      value = *options[1];
      return MayBeNext(row.takes, value) && MayHave(row, value, headers) ? 2 : 0;
    }
  }
  return 0;
}

}  // namespace

std::string RefusedOption(Compiler compiler, const Texts& options, const Texts& headers) {
  const std::span<const Row> rows = compiler == Compiler::kNvrtc ? std::span<const Row>(kNvrtc)
                                                                 : std::span<const Row>(kNvJitLink);
  for (size_t at = 0; at < options.size();) {
    const size_t accepted =
        IsText(*options[at]) ? Accepted(rows, std::span(options).subspan(at), headers) : 0;
    if (accepted == 0) {
      return "option '" + options[at]->substr(0, options[at]->find('\0')) +
             "' is refused: it is not on this server's list of options that name no file";
    }
    at += accepted;
  }
  return "";
}

}  // namespace farcall::server
