// SPDX-License-Identifier: Apache-2.0

// What other threads may read of an engine without a request (engine/requests/). Counters and
// quotas may be read on any thread. Rows of tenants, TVLs and addresses change only by requests of
// the control thread: it reads them at any time, other threads while Adapter::tenants_changing is
// held.
#pragma once

#include <memory>
#include <vector>

namespace softhca::collect {
class FunctionTable;
class PcbPool;
}  // namespace softhca::collect
namespace softhca::schedule {
class KickArbitrator;
class MinimumRates;
class SendQueueScheduler;
class TvlTable;
}  // namespace softhca::schedule

namespace softhca::engine {

class Captures;
class Faults;
class LocalAddresses;
class PeerAuthentication;
class ReceiveQueues;
struct PortBinding;

struct EngineView {
  const collect::PcbPool& pcbs;
  const schedule::TvlTable& tvls;
  const schedule::KickArbitrator& arbitrator;
  const schedule::SendQueueScheduler& scheduler;
  const schedule::MinimumRates& minimums;  ///< for the control thread
  const std::vector<std::unique_ptr<PortBinding>>& ports;
  const LocalAddresses& addresses;
  const ReceiveQueues& receive_queues;  ///< for the control thread
  const Captures& captures;
  const Faults& faults;
  const PeerAuthentication& authentication;
  /// Which VCBs belong to which session. The control thread assigns and releases them.
  collect::FunctionTable& functions;
};

}  // namespace softhca::engine
