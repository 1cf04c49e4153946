// SPDX-License-Identifier: Apache-2.0
#include "pool/convert/time_of_day.h"

#include <array>
#include <cstdio>
#include <optional>
#include <string_view>

#include "proto/printable.h"

#ifdef FARCALL_TIME_ZONES
#include <date/tz.h>
#endif

namespace farcall::pool {

namespace {

constexpr char kWrite[] = "write 2026-12-01T08:00 Europe/Berlin, ...T08:00+01:00 or ...T07:00Z";
constexpr size_t kMaxText = 64;
constexpr int64_t kDay = 86'400;

Status Wrong(const std::string& text, const std::string& why) {
  return {Code::kInvalid, "'" + Printable(text, kMaxText) + "': " + why};
}

// Two digits, or four, from the front.
std::optional<int> Take(std::string_view* text, size_t digits) {
  if (text->size() < digits) return std::nullopt;
  int value = 0;
  for (const char c : text->substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text->remove_prefix(digits);
  return value;
}

bool TakeOne(std::string_view* text, std::string_view of) {
  if (text->empty() || of.find(text->front()) == std::string_view::npos) return false;
  text->remove_prefix(1);
  return true;
}

// Of the Gregorian calendar, from 1970-01-01.
int64_t DaysTo(int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = year / 400, of_era = year - era * 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719'468;
}

int DaysOf(int year, int month) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return kDays[static_cast<size_t>(month - 1)] + (month == 2 && is_leap ? 1 : 0);
}

// What a local clock would show, as seconds of a zone without an offset; the rest is the
// zone.
std::optional<int64_t> TakeLocal(std::string_view* text) {
  const std::optional<int> year = Take(text, 4);
  if (!year || !TakeOne(text, "-")) return std::nullopt;
  const std::optional<int> month = Take(text, 2);
  if (!month || !TakeOne(text, "-")) return std::nullopt;
  const std::optional<int> day = Take(text, 2);
  if (!day || !TakeOne(text, "T ")) return std::nullopt;
  const std::optional<int> hour = Take(text, 2);
  if (!hour || !TakeOne(text, ":")) return std::nullopt;
  const std::optional<int> minute = Take(text, 2);
  std::optional<int> second = 0;
  if (TakeOne(text, ":")) second = Take(text, 2);
  if (!minute || !second || *year < 1970 || *month < 1 || *month > 12 || *day < 1 ||
      *day > DaysOf(*year, *month) || *hour > 23 || *minute > 59 || *second > 59)
    return std::nullopt;
  return DaysTo(*year, *month, *day) * kDay + *hour * 3600 + *minute * 60 + *second;
}

// "+01:00"
std::optional<int64_t> OffsetOf(std::string_view text) {
  const bool is_west = !text.empty() && text.front() == '-';
  if (!TakeOne(&text, "+-")) return std::nullopt;
  const std::optional<int> hours = Take(&text, 2);
  (void)TakeOne(&text, ":");
  const std::optional<int> minutes = Take(&text, 2);
  if (!hours || !minutes || !text.empty() || *hours > 14 || *minutes > 59) return std::nullopt;
  const int64_t offset = *hours * 3600 + *minutes * 60;
  return is_west ? -offset : offset;
}

std::string ClockText(int64_t local) {
  char text[32];
  const int64_t of_day = ((local % kDay) + kDay) % kDay;
  std::snprintf(text, sizeof(text), "%02d:%02d", static_cast<int>(of_day / 3600),
                static_cast<int>(of_day / 60 % 60));
  return text;
}

#ifdef FARCALL_TIME_ZONES

std::string OffsetText(int64_t offset) {
  const int64_t size = offset < 0 ? -offset : offset;
  char text[32];
  std::snprintf(text, sizeof(text), "%c%02d:%02d", offset < 0 ? '-' : '+',
                static_cast<int>(size / 3600), static_cast<int>(size / 60 % 60));
  return text;
}

Result<int64_t> InZone(const std::string& text, int64_t local, const std::string& zone) {
  const date::time_zone* known = nullptr;
  try {
    known = date::locate_zone(zone);
  } catch (const std::exception&) {
    return Wrong(text, "no time zone '" + Printable(zone, kMaxText) + "' is known here; " + kWrite);
  }
  const date::local_info info = known->get_info(date::local_seconds(std::chrono::seconds(local)));
  const int64_t before = info.first.offset.count(), after = info.second.offset.count();
  if (info.result == date::local_info::nonexistent)
    return Wrong(text, "the clocks of " + zone + " leave that time out: they go from " +
                           ClockText(info.first.end.time_since_epoch().count() + before) + " to " +
                           ClockText(info.first.end.time_since_epoch().count() + after));
  if (info.result == date::local_info::ambiguous)
    return Wrong(text, "the clocks of " + zone + " show that time twice: write " +
                           OffsetText(before) + " or " + OffsetText(after) + " for the zone");
  return local - before;
}

#else

Result<int64_t> InZone(const std::string& text, int64_t, const std::string&) {
  return Wrong(text, "this build of Farcall knows no names of time zones; write ...+01:00 or ...Z");
}

#endif

}  // namespace

Result<int64_t> ReadTimeOfDay(const std::string& text) {
  std::string_view rest = text;
  if (rest.size() > kMaxText) return Wrong(text, std::string("no time; ") + kWrite);
  const std::optional<int64_t> local = TakeLocal(&rest);
  if (!local) return Wrong(text, std::string("no time that there is; ") + kWrite);
  while (TakeOne(&rest, " ")) {
  }
  if (rest.empty()) return Wrong(text, std::string("it has no time zone; ") + kWrite);
  if (rest == "Z" || rest == "UTC") return *local;
  if (rest.front() == '+' || rest.front() == '-') {
    const std::optional<int64_t> offset = OffsetOf(rest);
    if (!offset) return Wrong(text, std::string("no offset from UTC; ") + kWrite);
    return *local - *offset;
  }
  return InZone(text, *local, std::string(rest));
}

std::string TimeOfDayText(int64_t unix_seconds) {
  int64_t days = unix_seconds / kDay;
  int year = 1970, month = 1;
  while (days >= DaysTo(year + 1, 1, 1)) ++year;
  days -= DaysTo(year, 1, 1);
  while (days >= DaysOf(year, month)) days -= DaysOf(year, month++);
  char text[40];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02dT%s:%02dZ", year, month,
                static_cast<int>(days) + 1, ClockText(unix_seconds).c_str(),
                static_cast<int>(unix_seconds % 60));
  return text;
}

}  // namespace farcall::pool
