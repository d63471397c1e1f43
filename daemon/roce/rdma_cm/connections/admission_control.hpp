// SPDX-License-Identifier: Apache-2.0

// Decides which connections begin: those that the tenant's guarantees support (Admission), up to a
// number per second (ConnectRate). Each identifier records what was admitted.
#pragma once

#include <string>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/connections/connect_rate.hpp"
#include "daemon/roce/rdma_cm/connections/connection_admission.hpp"
#include "daemon/roce/rdma_cm/identifier.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

class AdmissionControl {
 public:
  /// Both outlive it.
  AdmissionControl(RdmaCmEnvironment& environment, const RdmaCmLimits& limits)
      : environment_(environment), limits_(limits) {}
  AdmissionControl(const AdmissionControl&) = delete;
  AdmissionControl& operator=(const AdmissionControl&) = delete;

  /// Admits a connection that a program begins by a command. Returns 0, ENOBUFS or EAGAIN.
  int admit(const ChannelCommand& command, Identifier& id);
  /// Admits a connection that a peer requests from a listener of a level. Returns false if it is
  /// refused; `why` is then the answer. Otherwise make an identifier and pass it to admitted().
  bool admit_request(const std::string& level, const cm::Path& path, Time now, cm::Answer& why);
  static void admitted(Identifier& request, const std::string& level, const cm::Path& path);
  /// Returns 0, or EAGAIN if the rate does not allow one more command.
  int check_rate(const ChannelCommand& command);
  /// True if the rate allows one more. Only the rate limits service ID resolutions.
  bool rate_allows(Time now, cm::Standing peer = cm::Standing::kEstablished);

  /// Ends the half-open state: the peer has answered, or the connection is over.
  void close_half(Identifier& id);
  /// Ends the connection's use of the tenant's guarantees.
  void give_back(Identifier& id);
  /// Like give_back(); also drops the connection manager's id of the connection.
  void connection_over(Identifier& id);

  ConnectionAdmission& admission() { return admission_; }
  const ConnectionAdmission& admission() const { return admission_; }

 private:
  RdmaCmEnvironment& environment_;
  const RdmaCmLimits& limits_;
  ConnectionAdmission admission_;
  ConnectRate rate_;
};

}  // namespace softhca::management::rdma_cm
