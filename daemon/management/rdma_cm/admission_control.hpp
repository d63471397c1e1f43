// Which connections begin: first those that the tenant's guarantees carry (Admission), of these so
// many a second (ConnectRate). What was admitted is noted at its identifier.
#pragma once

#include <string>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/rdma_cm/admission.hpp"
#include "daemon/management/rdma_cm/connect_rate.hpp"
#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/identifier.hpp"

namespace softhca::management::rdma_cm {

class AdmissionControl {
 public:
  /// Both outlive it.
  AdmissionControl(Environment& environment, const Limits& limits)
      : environment_(environment), limits_(limits) {}
  AdmissionControl(const AdmissionControl&) = delete;
  AdmissionControl& operator=(const AdmissionControl&) = delete;

  /// A connection that a program of a level begins: 0, or ENOBUFS, EAGAIN.
  int admit(Identifier& id, const std::string& level, Time now);
  /// One that a peer asks a listener of a level for. False: `why` says what to answer. Else an
  /// identifier is to be made and given to admitted().
  bool admit_request(const std::string& level, const Gid& peer, Time now, cm::Answer& why);
  static void admitted(Identifier& request, const std::string& level);
  /// What the rate alone limits: service ID resolutions.
  bool rate_allows(Time now);

  /// The peer has answered, or it is over.
  void close_half(Identifier& id);
  /// Nothing of the tenant's guarantees is for it any more.
  void give_back(Identifier& id);
  /// Likewise; and the connection manager knows it no longer.
  void connection_over(Identifier& id);

  Admission& admission() { return admission_; }
  const Admission& admission() const { return admission_; }

 private:
  Environment& environment_;
  const Limits& limits_;
  Admission admission_;
  ConnectRate rate_;
};

}  // namespace softhca::management::rdma_cm
