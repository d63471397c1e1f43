// Which connections begin: first those that the tenant's guarantees carry (Admission), and of these
// so many a second (ConnectRate). What was admitted is noted at its identifier.
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
  /// A connection that a peer asks a listener of a level for. False: `why` says what to answer.
  /// Otherwise an identifier is to be made and given to admitted().
  bool admit_request(const std::string& level, const cm::Path& path, Time now, cm::Answer& why);
  static void admitted(Identifier& request, const std::string& level, const cm::Path& path);
  /// True if one more may begin of what the rate alone limits: service ID resolutions.
  bool rate_allows(Time now, cm::Standing peer = cm::Standing::kEstablished);

  /// The peer has answered, or the connection is over.
  void close_half(Identifier& id);
  /// The connection no longer takes anything of the tenant's guarantees.
  void give_back(Identifier& id);
  /// As give_back(); and the connection manager no longer knows the connection.
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
