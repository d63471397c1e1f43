// Sessions as they come and go: their class has its turns and weights, their VCBs and doorbells are
// polled, their events are kept.
#pragma once

#include "daemon/engine/tvl_assignment.hpp"

namespace softhca::engine {

class SessionRegistry {
 public:
  SessionRegistry(CpuScheduler& cpu, collect::PcbPool& pcbs, Ingress& ingress,
                  TvlAssignment& tvl_assignment, AsyncEvents& async_events)
      : cpu_(cpu),
        pcbs_(pcbs),
        ingress_(ingress),
        tvl_assignment_(tvl_assignment),
        async_events_(async_events) {}

  /// The session belongs to its class. Its memory is not looked at before poll().
  void install(Session& session);
  /// From now on its VCBs and doorbells are looked at. REQUIRES: it is installed.
  void poll(Session& session);
  /// REQUIRES: nothing of the session is left.
  void remove(Session& session);

 private:
  CpuScheduler& cpu_;
  collect::PcbPool& pcbs_;
  Ingress& ingress_;
  TvlAssignment& tvl_assignment_;
  AsyncEvents& async_events_;
};

}  // namespace softhca::engine
