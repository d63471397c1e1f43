// SPDX-License-Identifier: Apache-2.0

// The keys of `set`, `level` and `qp set`, for completion and for messages. The daemon decides
// which of the first two it accepts.
#include <map>
#include <string>
#include <vector>

#include "cli/ctl/ctl_commands.hpp"

namespace softhca::cli {
namespace {

std::vector<std::string> rate_keys(const std::string& table) {
  std::vector<std::string> keys;
  for (const char* const key :
       {"bytes_per_second", "burst_bytes", "messages_per_second", "burst_messages"})
    keys.push_back(table + key);
  return keys;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Returns the keys of levels and of tenants.
std::vector<std::string> common_keys() {
  std::vector<std::string> keys = {"vcbs",
                                   "pcbs",
                                   "tvls",
                                   "shared",
                                   "weight",
                                   "execution_credits",
                                   "completion_credits",
                                   "rate.min_bytes_per_second"};
  for (const char* const table : {"rate.", "inbound_rate.", "served_rate."})
    append(keys, rate_keys(table));
  return keys;
}

std::map<std::string, std::vector<std::string>> all_keys() {
  std::vector<std::string> queue_pair = {"srq_limit", "importance", "min_bytes_per_second"};
  for (const char* const table : {"", "inbound_rate.", "served_rate."})
    append(queue_pair, rate_keys(table));
  std::vector<std::string> level = {"default", "dscp", "cgroups", "service_levels",
                                    "traffic_classes"};
  append(level, common_keys());
  std::vector<std::string> tenant = common_keys();
  append(tenant, {"share",
                  "class",
                  "vcbs_per_process",
                  "kick_list",
                  "srq.limit",
                  "srq.kind",
                  "srq.on_exceed",
                  "srq.statistical",
                  "srq.overcommit",
                  "srq.watermark",
                  "connections.identifiers",
                  "connections.listeners",
                  "connections.most",
                  "connections.half_open",
                  "connections.connects_per_second",
                  "connections.pcbs_each",
                  "sessions",
                  "queue_pairs",
                  "completion_queues",
                  "shared_receive_queues",
                  "memory_regions",
                  "memory_windows",
                  "protection_domains",
                  "address_handles",
                  "registered_bytes",
                  "shared_bytes",
                  "queue_bytes",
                  "descriptors",
                  "mappings"});
  return {{"SET-KEY", tenant}, {"LEVEL-KEY", level}, {"QP-KEY", queue_pair}};
}

}  // namespace

const std::vector<std::string>& keys_of(const std::string& kind) {
  static const std::map<std::string, std::vector<std::string>> kKeys = all_keys();
  static const std::vector<std::string> kNone;
  const auto found = kKeys.find(kind);
  return found == kKeys.end() ? kNone : found->second;
}

}  // namespace softhca::cli
