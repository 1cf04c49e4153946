// SPDX-License-Identifier: Apache-2.0
// Reservations and join tokens, between the core's words and pool.proto's.
#include <algorithm>

#include "pool/convert/convert.h"
#include "pool/convert/time_of_day.h"
#include "proto/printable.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxText = 256;

std::optional<Refusal> Read(const std::string& text, const char* field, int64_t* unix_seconds) {
  const Result<int64_t> read = ReadTimeOfDay(text);
  if (!read.ok())
    return Refusal{RefusalCode::kInvalid, std::string(field) + " " + read.status().message(), field,
                   ""};
  *unix_seconds = *read;
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> ToReservation(const pb::Reservation& given, Reservation* reservation) {
  reservation->name = given.name();
  reservation->gpus = given.gpus() == 0 ? 1 : given.gpus();
  if (!given.begin().empty())
    if (auto wrong = Read(given.begin(), "begin", &reservation->begin_unix)) return wrong;
  if (given.end().empty())
    return Refusal{RefusalCode::kInvalid, "end: it is missing", "end",
                   "say when the reservation ends: 2026-12-01T18:00 Europe/Berlin"};
  if (auto wrong = Read(given.end(), "end", &reservation->end_unix)) return wrong;
  for (auto [text, field] : {std::pair(&given.project(), "project"),
                             {&given.model(), "model"},
                             {&given.group(), "group"}})
    if (text->size() > kMaxText)
      return Refusal{RefusalCode::kInvalid,
                     std::string(field) + " of " + std::to_string(text->size()) +
                         " characters: at most " + std::to_string(kMaxText),
                     field, ""};
  reservation->project = given.project();
  reservation->model = given.model();
  reservation->group = KeptGroup(given.group());
  if (std::string wrong = ParseSelector(given.selector(), &reservation->selector); !wrong.empty())
    return Refusal{RefusalCode::kInvalid, Printable(wrong, kMaxText), "selector", ""};
  return std::nullopt;
}

pb::Reservation ToProto(const Reservation& reservation) {
  pb::Reservation told;
  told.set_name(reservation.name);
  told.set_gpus(reservation.gpus);
  if (reservation.begin_unix != 0) told.set_begin(TimeOfDayText(reservation.begin_unix));
  told.set_end(TimeOfDayText(reservation.end_unix));
  told.set_project(reservation.project);
  told.set_model(reservation.model);
  told.set_group(NameOfGroup(reservation.group));
  told.set_selector(ToText(reservation.selector));
  told.set_state(reservation.has_begun ? "running" : "upcoming");
  for (const Reservation::Held& one : reservation.held)
    told.add_held(one.host + ":" + std::to_string(one.device));
  told.set_begin_unix(reservation.begin_unix);
  told.set_end_unix(reservation.end_unix);
  told.set_number(reservation.number);
  told.set_revision(reservation.revision);
  return told;
}

Reservation ReservationOf(const pb::Reservation& stored) {
  Reservation reservation;
  reservation.name = stored.name();
  reservation.gpus = stored.gpus();
  reservation.begin_unix = stored.begin_unix();
  reservation.end_unix = stored.end_unix();
  reservation.project = stored.project();
  reservation.model = stored.model();
  reservation.group = KeptGroup(stored.group());
  (void)ParseSelector(stored.selector(), &reservation.selector);
  for (const std::string& text : stored.held()) {
    const size_t colon = std::min(text.rfind(':'), text.size());
    const std::string device = text.substr(std::min(colon + 1, text.size()));
    reservation.held.push_back(
        {text.substr(0, colon), static_cast<uint32_t>(std::strtoul(device.c_str(), nullptr, 10))});
  }
  reservation.number = stored.number();
  reservation.revision = stored.revision();
  return reservation;
}

std::pair<std::string, JoinToken> FromProto(const pb::StoredJoinToken& stored) {
  JoinToken token;
  token.host = stored.host();
  token.expires_unix = stored.expires();
  token.max_uses = std::max(stored.max_uses(), 1u);
  token.uses = stored.uses();
  token.created_unix = stored.created();
  token.made_by = stored.made_by();
  token.note = stored.note();
  return {stored.hash(), token};
}

pb::StoredJoinToken ToStored(const std::string& hash, const JoinToken& token) {
  pb::StoredJoinToken stored;
  stored.set_hash(hash);
  stored.set_host(token.host);
  stored.set_expires(token.expires_unix);
  stored.set_max_uses(token.max_uses);
  stored.set_uses(token.uses);
  stored.set_created(token.created_unix);
  stored.set_made_by(token.made_by);
  stored.set_note(token.note);
  return stored;
}

}  // namespace farcall::pool
