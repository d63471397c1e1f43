// SPDX-License-Identifier: Apache-2.0

// What softhcactl measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/admin_client.hpp"

namespace softhca::cli {

class BenchRuns;

/// Writes of one size, with the number of queue pairs that is best for it.
struct WriteRate {
  std::uint64_t bytes = 0;  ///< of a message
  double best = 0;          ///< messages a second, of all turns
  double least = 0;         ///< of the turns with the same number of queue pairs
  double memcpy = 0;        ///< copies of as many bytes a second on the same core

  double byte_rate() const { return best * static_cast<double>(bytes); }
};

/// Bytes of memory.
struct MemoryCosts {
  double session = 0;
  double queue_pair = 0;         ///< connected, without its queues
  double queue_pair_queues = 0;  ///< its queues
  double queue_pair_depth = 0;   ///< sends, and receives, of these queues
  double completion_entry = 0;
  double registered_gib = 0;  ///< page tables of the daemon for a GiB
};

struct Figures {
  std::vector<WriteRate> local;  ///< within one daemon, by size
  std::vector<WriteRate> wire;   ///< between two daemons over UDP sockets of the loopback interface
  /// Messages a second of each tenant, when several with equal weights write at once.
  std::vector<double> together;
  double latency_p50_us = 0;  ///< one way, of a write of 64 bytes
  double latency_p99_us = 0;
  MemoryCosts memory;
};

/// Returns the rates of these objects of softhca-bench, by size. Throws Json::exception.
std::vector<WriteRate> rates_of(const std::vector<Json>& objects);
/// Returns the messages a second of `clients` clients that wrote at once: the turn with the
/// greatest sum. Throws Json::exception.
std::vector<double> together_of(const std::vector<Json>& objects, std::size_t clients);
MemoryCosts memory_of(const Json& object);

/// Returns the figures as the document of `softhcactl measure -o json` has them, and back. Throws
/// Json::exception, or CommandError if a figure cannot be one.
Json document_of(const Figures& figures);
Figures figures_of(const Json& document);

}  // namespace softhca::cli
