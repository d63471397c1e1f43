// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/schema/removed_keys.hpp"

#include <algorithm>
#include <utility>

namespace softhca::configuration {
namespace {

constexpr const char* kFixed = "its former default is fixed now";

/// The key with its table, and what holds now.
using Removed = std::pair<std::string_view, const char*>;
constexpr Removed kRemoved[] = {
    {"daemon.park_after_us", "a process is parked after 200 us without work"},
    {"congestion.min_time_between_cnps", kFixed},
    {"congestion.initial_alpha_value", kFixed},
    {"congestion.cnp_802p_prio", "it is an eighth of cnp_dscp"},
    {"congestion.dce_tcp_g", kFixed},
    {"congestion.dce_tcp_rtt", kFixed},
    {"congestion.rate_reduce_monitor_period", kFixed},
    {"congestion.rpg_gd", kFixed},
    {"congestion.rpg_min_dec_fac", kFixed},
    {"congestion.clamp_tgt_rate", kFixed},
    {"congestion.clamp_tgt_rate_after_time_inc", kFixed},
    {"congestion.rpg_byte_reset", kFixed},
    {"congestion.rpg_threshold", kFixed},
    {"congestion.rpg_ai_rate", kFixed},
    {"congestion.rpg_hai_rate", kFixed},
    {"congestion.rate_to_set_on_first_cnp", "the first CNP sets half of rpg_max_rate"},
    {"congestion.rpg_min_rate", "a CNP lowers no rate below 1 Mbit/s"},
    {"congestion.rpg_time_reset", kFixed},
    {"reliability.initial_flight", kFixed},
    {"reliability.flight_steps", kFixed},
    {"reliability.borne_losses", kFixed},
    {"reliability.queued_packets", kFixed},
    {"adjustment.keep", "a tenth of a guarantee is never lent"},
    {"device.vendor_id", kFixed},
    {"device.part_id", kFixed},
    {"device.hardware_version", kFixed},
    {"device.firmware", kFixed},
    {"device.max_qp_wr", "a queue takes at most 16384 work requests"},
    {"device.max_cqe", "a completion queue has at most 1048576 entries"},
    {"device.max_sge", kFixed},
    {"device.max_inline", kFixed},
    {"device.max_srq_wr", kFixed},
    {"device.max_rd_atomic", kFixed},
    {"device.completion_vectors", kFixed},
    {"general_services.source_part", kFixed},
    {"general_services.source_rate", kFixed},
    {"general_services.source_burst", kFixed},
    {"general_services.new_sources_part", kFixed},
    {"general_services.new_sources_rate", kFixed},
    {"general_services.new_sources_burst", kFixed},
    {"general_services.probation_ms", kFixed},
    {"general_services.forget_after_ms", kFixed},
    {"general_services.window_ms", kFixed},
    {"general_services.raise_after", kFixed},
    {"general_services.lower_after", kFixed},
    {"general_services.raise_most", kFixed},
    {"general_services.send_burst", kFixed},
    {"general_services.tenant_clients", "a tenant has at most 16 clients"},
    {"general_services.tenant_buffers",
     "a tenant's clients may request a quarter of `buffers`, at most 256"},
    {"general_services.send_rate", "a tenant's clients may make 2000 requests a second"},
    {"connections.backlog", "half_open is also the limit of each listener"},
    {"connections.completion_credits_each",
     "a connection takes pcbs_each of the guaranteed completion credits, too"},
    {"port.fault", "inject faults by `softhcactl fault add`"},
    {"port.capture", "capture packets by `softhcactl capture`"},
    {"tenant.most_vcbs_per_process", "a program that needs them gets up to 64 VCBs"},
    {"tenant.dedicated_execution_credits",
     "a tenant has 32 for its dedicated PCBs (1 with shared = false)"},
    {"tenant.dedicated_completion_credits",
     "a tenant has 128 for its dedicated PCBs (1 with shared = false)"},
    {"tenant.srq.runaways", "runaways are reported where no watermark is set"},
    {"tenant.tvl_bytes_per_second", kFixed},
    {"tenant.tvl_burst_bytes", kFixed},
    {"tenant.tvl_messages_per_second", kFixed},
    {"tenant.tvl_burst_messages", kFixed},
    {"tenant.tvl_min_bytes_per_second", kFixed},
};

/// Tables that have the keys of another.
constexpr std::pair<std::string_view, std::string_view> kSameKeys[] = {
    {"shared_datagrams.", "general_services."},
    {"template.", "tenant."},
    {"tenant.tvl.", "tenant."},
    {"tenant.level.", "tenant."},
    {"tenant.connections.", "connections."},
};

}  // namespace

std::optional<std::string> removal_of(std::string_view table, std::string_view key) {
  std::string name = std::string(table) + '.' + std::string(key);
  for (const auto& [part, whole] : kSameKeys)
    if (name.starts_with(part)) name.replace(0, part.size(), whole);
  const auto* const found = std::ranges::find(kRemoved, name, &Removed::first);
  if (found == std::end(kRemoved)) return std::nullopt;
  return "was removed: " + std::string(found->second);
}

}  // namespace softhca::configuration
