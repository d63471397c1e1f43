// SPDX-License-Identifier: Apache-2.0

#include "cli/measure/proposal.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace softhca::cli {
namespace {

// Ranges and defaults of the configuration.
constexpr std::uint64_t kMostQueuePairs = 1 << 20;
constexpr std::uint64_t kMostRegions = 1 << 18;
constexpr std::uint64_t kMostDatagramBuffers = 1 << 14;
// A session takes 6 descriptors, channels of its program more. The service has 65536.
constexpr std::uint64_t kDescriptorsOfSession = 8;
constexpr std::uint64_t kMostSessions = 65536 / kDescriptorsOfSession;
// Parts of the mappings of a process that regions may take: the daemon needs some, and a tenant
// keeps some for queues.
constexpr double kMappingsOfRegions = 7.0 / 8 * 15 / 16;
// The least that a rate counts for a message.
constexpr std::uint64_t kCountedBytes = 4096;
// Part of the measured rates that is guaranteed: the rest is for what measuring leaves out.
constexpr double kGuaranteedPart = 0.8;
// Each tenant's minimum: this many VCBs, PCBs and so on are its own.
constexpr std::uint64_t kVcbs = 256, kPcbs = 512, kTvls = 8, kExecutionCredits = 64, kSessions = 64,
                        kQueuePairs = 8192, kDoorbells = 64, kDatagramBuffers = 64;

/// Returns the power of two for `each` of the tenants, at least the default.
std::uint64_t for_all(unsigned tenants, std::uint64_t each, std::uint64_t usual) {
  return std::max(usual, std::bit_ceil(tenants * each));
}

std::string share_of(unsigned tenants) {
  const unsigned tenths = 1000 / tenants;
  return std::to_string(tenths / 10) + (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : "") +
         "%";
}

/// Returns the least bytes a second, as the daemon counts them for rates.
double least_byte_rate(const Figures& figures) {
  double least = HUGE_VAL;
  for (const std::vector<WriteRate>* rates : {&figures.local, &figures.wire})
    for (const WriteRate& rate : *rates)
      least = std::min(least, rate.best * static_cast<double>(std::max(rate.bytes, kCountedBytes)));
  return least;
}

const WriteRate* rate_of(const std::vector<WriteRate>& rates, std::uint64_t bytes) {
  const auto found = std::find_if(rates.begin(), rates.end(),
                                  [&](const WriteRate& rate) { return rate.bytes == bytes; });
  return found == rates.end() ? nullptr : &*found;
}

constexpr unsigned kMibShift = 20;

/// Returns "512M": as many whole MiB.
std::string mib_text(std::uint64_t bytes) {
  return '"' + std::to_string(bytes >> kMibShift) + "M\"";
}

std::string line(const std::string& key, const std::string& value, const char* remark = nullptr) {
  std::string text = key + " = " + value;
  if (remark != nullptr)
    text += std::string(text.size() < 34 ? 34 - text.size() : 1, ' ') + "# " + remark;
  return text + "\n";
}

std::string line(const std::string& key, std::uint64_t value, const char* remark = nullptr) {
  return line(key, std::to_string(value), remark);
}

}  // namespace

unsigned default_tenants(const Host& host) {
  return static_cast<unsigned>(std::clamp(host.cores, 4.0, 64.0));
}

Proposal propose(const Host& host, unsigned tenants, const Figures& figures) {
  Proposal of{};
  of.tenants = tenants;
  of.share = share_of(tenants);
  of.pool_tenants = for_all(tenants, 2, 64);
  of.vcbs = for_all(tenants, kVcbs, 4096);
  of.pcbs = for_all(tenants, kPcbs, 8192);
  of.dedicated_pcbs = for_all(tenants, 4, 256);
  of.tvls = for_all(tenants, kTvls, 256);
  of.execution_credits = for_all(tenants, kExecutionCredits, 1024);
  of.completion_credits = of.pcbs;
  of.sessions = std::min(for_all(tenants, kSessions, 1024), kMostSessions);
  of.registered_bytes = host.memory / 4 * 3;
  of.queue_bytes = host.memory / 8;
  const double fitting =
      static_cast<double>(of.queue_bytes) / std::max(figures.memory.queue_pair_queues, 1.0);
  of.queue_pairs = std::max<std::uint64_t>(
      256, std::min({for_all(tenants, kQueuePairs, 1 << 17), kMostQueuePairs,
                     std::bit_floor(static_cast<std::uint64_t>(fitting))}));
  of.memory_regions = std::min(of.queue_pairs, kMostRegions);
  of.min_bytes_per_second =
      static_cast<std::uint64_t>(least_byte_rate(figures) * kGuaranteedPart) >> kMibShift
                                                                                    << kMibShift;
  of.doorbell_entries = for_all(tenants, kDoorbells, 4096);
  of.datagram_buffers = std::min(for_all(tenants, kDatagramBuffers, 1024), kMostDatagramBuffers);
  of.engine_core = host.isolated_core;
  return of;
}

std::string why_fewer_sessions(const Host& host, const Proposal& of) {
  if (host.descriptors >= of.sessions * kDescriptorsOfSession) return "";
  return "this shell allows a process " + std::to_string(host.descriptors) +
         " open files: a daemon that it starts has room for " +
         std::to_string(host.descriptors / kDescriptorsOfSession) +
         " open devices; use the service, or raise `ulimit -n`";
}

std::string configuration_text(const Proposal& of) {
  std::string text;
  if (of.engine_core)
    text += "[daemon]\n" +
            line("engine_cpu", std::uint64_t{*of.engine_core}, "isolated: no program runs there") +
            "idle = \"poll\"                     # the core has nothing else to do\n\n";
  text += "[pools]\n" + line("tenants", of.pool_tenants) + line("vcbs", of.vcbs) +
          line("pcbs", of.pcbs, "messages in progress") +
          line("dedicated_pcbs", of.dedicated_pcbs) + line("tvls", of.tvls) +
          line("execution_credits", of.execution_credits) +
          line("completion_credits", of.completion_credits) + line("sessions", of.sessions) +
          line("queue_pairs", of.queue_pairs) + line("completion_queues", of.queue_pairs) +
          line("memory_regions", of.memory_regions) +
          line("registered_bytes", mib_text(of.registered_bytes), "3/4 of the memory") +
          line("shared_bytes", mib_text(of.registered_bytes)) +
          line("queue_bytes", mib_text(of.queue_bytes), "1/8 of the memory") +
          line("min_bytes_per_second", mib_text(of.min_bytes_per_second),
               "4/5 of the least rate measured");
  text += "\n[doorbells]\n" + line("entries", of.doorbell_entries);
  text += "\n[general_services]\n" + line("buffers", of.datagram_buffers);
  return text;
}

std::string tenants_text(unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += "\n[[tenant]]\nname = \"t" + std::to_string(i + 1) + "\"\naddresses = [\"198.18." +
            std::to_string(i / 250) + "." + std::to_string(i % 250 + 1) + "\"]\nshare = \"" +
            share_of(count) + "\"\n";
  return text;
}

std::vector<Promise> promises(const Host& host, const Proposal& of, const Figures& figures) {
  using Unit = Promise::Unit;
  const double all = of.tenants;
  // Less than one tenant reaches alone, if their programs keep the engine from a core.
  const double together = std::accumulate(figures.together.begin(), figures.together.end(), 0.0);
  std::vector<Promise> list;
  const auto add = [&](const char* key, const char* what, double total, Unit unit,
                       const char* from) {
    list.push_back({key, what, total, total / all, unit, from});
  };
  const auto add_count = [&](const char* key, const char* what, std::uint64_t total,
                             const char* from) {
    const std::uint64_t each = total / of.tenants;
    list.push_back(
        {key, what, static_cast<double>(total), static_cast<double>(each), Unit::kCount, from});
  };
  if (const WriteRate* const rate = rate_of(figures.local, 64))
    add("small_writes", "writes of 64 bytes, local", std::min(rate->best, together), Unit::kRate,
        "share of the engine");
  if (const WriteRate* const rate = rate_of(figures.local, 1 << 20))
    add("large_writes", "writes of 1 MiB, local", rate->byte_rate(), Unit::kByteRate,
        "share of the engine");
  if (const WriteRate* const rate = rate_of(figures.wire, 1 << 20))
    add("wire_writes", "writes of 1 MiB, wire", rate->byte_rate(), Unit::kByteRate,
        "the same, and the link");
  add("minimum_rate", "minimum rate", static_cast<double>(of.min_bytes_per_second), Unit::kByteRate,
      "min_bytes_per_second");
  add_count("messages_in_progress", "messages in progress", of.pcbs - of.dedicated_pcbs,
            "pcbs - dedicated_pcbs");
  add_count("fast_programs", "programs without doorbells", of.vcbs / 16, "vcbs / 16");
  add_count("sessions", "open devices", of.sessions, "sessions");
  add_count("queue_pairs", "queue pairs", of.queue_pairs, "queue_pairs");
  add_count("completion_queues", "completion queues", of.queue_pairs, "completion_queues");
  const auto mappings =
      static_cast<std::uint64_t>(static_cast<double>(host.mappings) * kMappingsOfRegions);
  add_count("memory_regions", "memory regions", std::min(of.memory_regions, mappings),
            "memory_regions, vm.max_map_count");
  add("registered_bytes", "registered memory", static_cast<double>(of.registered_bytes),
      Unit::kBytes, "registered_bytes");
  add("queue_bytes", "memory of its queues", static_cast<double>(of.queue_bytes), Unit::kBytes,
      "queue_bytes");
  return list;
}

double most_memory(const Proposal& of, const MemoryCosts& costs, double empty) {
  constexpr double kGib = 1 << 30;
  return empty + static_cast<double>(of.sessions) * costs.session +
         static_cast<double>(of.queue_pairs) * costs.queue_pair +
         static_cast<double>(of.registered_bytes) / kGib * costs.registered_gib +
         static_cast<double>(of.queue_bytes);
}

}  // namespace softhca::cli
