// SPDX-License-Identifier: Apache-2.0

// From what was measured: a configuration for this host, and what it lets an operator promise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure/figures.hpp"
#include "cli/measure/host.hpp"

namespace softhca::cli {

/// The most tenants for which there is a proposal: each has datagram buffers of the daemon.
inline constexpr unsigned kMostMeasuredTenants = 256;

/// Totals, with the names of the configuration's keys.
struct Proposal {
  unsigned tenants = 1;  ///< with equal shares
  std::string share;     ///< of each
  std::uint64_t pool_tenants, vcbs, pcbs, dedicated_pcbs, tvls, execution_credits,
      completion_credits, sessions, queue_pairs, memory_regions, registered_bytes, queue_bytes,
      min_bytes_per_second;
  std::uint64_t doorbell_entries, datagram_buffers;
  std::optional<unsigned> engine_core;  ///< for the engine alone
};

/// Returns the number of tenants to propose for, if the user names none.
unsigned default_tenants(const Host& host);
/// Returns the proposal for `tenants` tenants, 1 to kMostMeasuredTenants.
///
/// Memory: three quarters may be registered, an eighth may be queues. There are as many queue pairs
/// as have space for queues of the measured depth, and at least 256. Rates: the sum of minimum
/// rates is four fifths of the least byte rate that was measured, where a message counts for 4 KiB
/// at least, as the daemon counts.
Proposal propose(const Host& host, unsigned tenants, const Figures& figures);

/// Returns a sentence if a daemon with the limits of this process cannot have all its sessions, as
/// the service can; empty: it can.
std::string why_fewer_sessions(const Host& host, const Proposal& proposal);

/// Returns a configuration file without tenants.
std::string configuration_text(const Proposal& proposal);
/// Returns `count` tenants for the end of that file, each with an equal share.
std::string tenants_text(unsigned count);

/// A promise to the tenants.
struct Promise {
  enum class Unit : std::uint8_t { kCount, kBytes, kRate, kByteRate };

  const char* key;   ///< name in documents
  const char* what;  ///< for people
  double all;        ///< for all of them together
  double each;       ///< for each of them
  Unit unit;
  const char* from;  ///< how it follows from measured rates and keys of the configuration
};
std::vector<Promise> promises(const Host& host, const Proposal& proposal, const Figures& figures);

/// Returns the bytes of memory that the daemon and the queues take when the pools are used up.
/// `empty`: bytes of the daemon with these pools and no program.
double most_memory(const Proposal& proposal, const MemoryCosts& costs, double empty);

}  // namespace softhca::cli
