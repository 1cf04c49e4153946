// SPDX-License-Identifier: Apache-2.0
// Reservations by gRPC.
#include "generated/proto/pool.grpc.pb.h"
#include "pool/grpc/grpc_call.h"

namespace farcall::pool {

namespace {

class ReservationsService final : public v1::Reservations::Service {
 public:
  ReservationsService(farcall::pool::Service* service, GrpcServer::Judge& judge)
      : service_(service), judge_(judge) {}
  grpc::Status Create(grpc::ServerContext* context, const v1::Reservation* request,
                      v1::Reservation* told) override {
    return Serve(service_, judge_, *context, "Reservations.Create", *request, told,
                 &farcall::pool::Service::CreateReservation);
  }
  grpc::Status List(grpc::ServerContext* context, const v1::ListReservationsRequest* request,
                    v1::ReservationList* told) override {
    return Serve(service_, judge_, *context, "Reservations.List", *request, told,
                 &farcall::pool::Service::ListReservations);
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::ReservationName* request,
                   v1::Reservation* told) override {
    return Serve(service_, judge_, *context, "Reservations.Get", *request, told,
                 &farcall::pool::Service::GetReservation);
  }
  grpc::Status Delete(grpc::ServerContext* context, const v1::ReservationName* request,
                      v1::Reservation* told) override {
    return Serve(service_, judge_, *context, "Reservations.Delete", *request, told,
                 &farcall::pool::Service::DeleteReservation);
  }

 private:
  farcall::pool::Service* const service_;
  GrpcServer::Judge& judge_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeReservationsService(Service* service, GrpcServer::Judge& judge) {
  return std::make_unique<ReservationsService>(service, judge);
}

}  // namespace farcall::pool
