// SPDX-License-Identifier: Apache-2.0
// Reservations, as REST and gRPC ask for them.
#include "pool/access/unix_time.h"
#include "pool/service/service_parts.h"

namespace farcall::pool {

namespace {

pb::Reservation ToProto(const Core& core, const Reservation& reservation) {
  pb::Reservation told = ToProto(reservation);
  uint32_t claims = 0;
  for (const auto& [id, claim] : core.claims())
    claims += claim.reservation == reservation.number && !IsOver(claim.state) ? 1 : 0;
  told.set_claims(claims);
  return told;
}

}  // namespace

Outcome Service::CreateReservation(const Caller& caller, const pb::Reservation& given,
                                   pb::Reservation* told) {
  MakeReservation event;
  if (std::optional<Refusal> wrong = ToReservation(given, &event.reservation)) return Of(*wrong);
  event.now_unix = UnixSeconds();
  Effects effects = controller_->Apply(std::move(event));
  if (effects.refusal) return Of(*effects.refusal);
  pb::ReservationName name;
  name.set_name(given.name());
  return GetReservation(caller, name, told);
}

Outcome Service::ListReservations(const Caller&, const pb::ListReservationsRequest& request,
                                  pb::ReservationList* list) {
  const uint32_t limit = PageOf(request.limit());
  controller_->Read([&](const Core& core, Ms) {
    for (auto at = core.reservations().upper_bound(request.page_token());
         at != core.reservations().end(); ++at) {
      if (list->reservations_size() == static_cast<int>(limit)) {
        list->set_next_page_token(std::prev(at)->first);
        return;
      }
      *list->add_reservations() = ToProto(core, at->second);
    }
  });
  return {};
}

Outcome Service::GetReservation(const Caller&, const pb::ReservationName& name,
                                pb::Reservation* told) {
  bool is_there = false;
  controller_->Read([&](const Core& core, Ms) {
    auto found = core.reservations().find(name.name());
    if (found == core.reservations().end()) return;
    is_there = true;
    *told = ToProto(core, found->second);
  });
  if (is_there) return {};
  return Failed(404, "not_found", "there is no reservation '" + name.name().substr(0, 64) + "'",
                "name", "farcall pool reservation list shows them");
}

Outcome Service::DeleteReservation(const Caller& caller, const pb::ReservationName& name,
                                   pb::Reservation* told) {
  Outcome found = GetReservation(caller, name, told);
  if (!found.ok()) return found;
  Effects effects = controller_->Apply(EndReservation{name.name()});
  return effects.refusal ? Of(*effects.refusal) : Outcome();
}

}  // namespace farcall::pool
