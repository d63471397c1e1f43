// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/event_report.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace softhca::control {
namespace {

constexpr EventMessage kMessages[] = {
    {"queue_pair_error", spdlog::level::warn, "b6a1b0f765b34f0a9a07b8df0635ae32", "failed: ", true},
    {"hostile_memory", spdlog::level::err, "ed2cf7fda86f4fc1826cf3bb7bef0c9f",
     "wrote invalid values into memory that it shares with the daemon: ", true},
    {"memory_late", spdlog::level::warn, "3a6d1c0be5f24b7e8d90c1f27b65a4e8", "", true},
    {"memory_slow", spdlog::level::warn, "e234c1ef103947919a71e37cd71e0017", "", true},
    {"guarantee_not_kept", spdlog::level::warn, "a92c98482b694a21a348798798e00a00",
     "guarantee not kept ", true},
    {"forged_packets", spdlog::level::warn, "0d5f1c7e2b9a4e66a3c84f17d09b62e5",
     "authentication failed: ", true},
    {"srq_connection_dropped", spdlog::level::warn, "a979d7c1a6ff4e8aad32b26df66b05d1", "", true},
    {"srq_quarantined", spdlog::level::warn, "cb860b80d7694689924a75a8467d1829", "", true},
    {"srq_quarantine_over", spdlog::level::info, "d0496ae62f024bfbaf9d1836b5ad358f", "", true},
    {"srq_runaway", spdlog::level::warn, "734bb899ce004c5e9bd1641d69a4e4db", "", true},
    {"connection_refused", spdlog::level::warn, "2364a3edd87d40c2ac255c1c6b8a8b4d",
     "rdma_cm: ", true},
    {"session_refused", spdlog::level::warn, "b03927677d9a4c7c854ddbc029a47bc4",
     "connection refused: ", true},
    {"request_refused", spdlog::level::info, "7f61ea7b9b274d27a2e4575ee267cdaf", "refused: ", true},
    {"gsa_client_refused", spdlog::level::warn, "7576850ab1164361b88ea3c7a0588b4c",
     "datagrams: ", true},
    {"link_down", spdlog::level::warn, "0b7595b623bc4b34a11d477adccd40f2", "", false},
    {"link_up", spdlog::level::info, "ac369db88f1749c083d1114383c3e4f4", "", false},
    {"port_failover", spdlog::level::warn, "8f3c1d6a5be04c1f9a7e2b90c4d1e563", "", false},
    {"port_down", spdlog::level::info, "3d9a57e0c2f84b6db15c8e7f0a6294d1", "", false},
    {"port_up", spdlog::level::info, "b7e21c84f5a94d30a86f1e5d90c37b2a", "", false},
    {"restart", spdlog::level::info, "4e2c8498bf024ead8906c8b7d0fc9d05", "", false},
    {"culprit", spdlog::level::warn, "1da78dbe181d48d0879bd86be64df054", "", false},
    {"reload", spdlog::level::info, "f142ed18235f4f93bd602506a3886ae2", "reload: ", false},
    {"reload_refused", spdlog::level::err, "e945869201af4d11b6e768f635ceb9cd",
     "reload: refused, nothing has changed: ", false},
    {"left_out", spdlog::level::warn, "b503fbac43ea4e53adb880c481fbd22c", "", false},
    {"set", spdlog::level::info, "d8926da412964a91b9441c9a4f0bae87", "set: ", false},
    {"rollback", spdlog::level::info, "67e65bcf63c944eb8ea90d36153de243", "rollback: ", false},
    {"tenant_created", spdlog::level::info, "a761e88b19f74c6983678b8d95e07e69", "", false},
    {"tenant_removed", spdlog::level::info, "723f84ad4e54484cbeb250dc63ea72d5", "", false},
    {"level_removed", spdlog::level::info, "ba10460e41594f35b96d041d4e33bce8", "", false},
    {"capture_started", spdlog::level::info, "821834ba95c641cb846301a88ba96529", "", false},
    {"capture_ended", spdlog::level::info, "437b8b5239ff444dad48f668831c7d9c", "", false},
    {"fault_added", spdlog::level::warn, "a94d13e7c1294d0b8f6c5a3a8f4c7d21", "", false},
    {"fault_removed", spdlog::level::info, "5c1f0a6e3db84f1b9c27e0b1d2f94a6e", "", false},
    {"fault_expired", spdlog::level::info, "e07b3c5d94a24f7aa6c18d5f20b9e334", "", false},
    {"machine_started", spdlog::level::info, "bff59a5137a84dde8441b590d4effbfa", "", true},
    {"machine_ended", spdlog::level::info, "5f6ad6e7466a4aa18ee6b1dd666771ab", "", true},
    {"session_opened", spdlog::level::debug, "", "", true},
    {"session_closed", spdlog::level::debug, "", "", true},
    {"srq_soft_limit", spdlog::level::debug, "", "", true},
    {"srq_hard_limit", spdlog::level::debug, "", "", true},
    {"srq_watermark", spdlog::level::debug, "", "", true},
    {"srq_limit_reached", spdlog::level::debug, "", "", true},
    {"srq_offender", spdlog::level::debug, "", "", true},
    {"srq_drawer", spdlog::level::debug, "", "", true},
    {"guarantee_lent", spdlog::level::debug, "", "", true},
    {"guarantee_recalled", spdlog::level::debug, "", "", true},
    {"gsa_share_raised", spdlog::level::debug, "", "", true},
    {"gsa_share_lowered", spdlog::level::debug, "", "", true},
};

}  // namespace

std::span<const EventMessage> event_messages() { return kMessages; }

const EventMessage* message_of(const std::string& kind) {
  const auto* const found = std::ranges::find_if(
      kMessages, [&](const EventMessage& message) { return message.kind == kind; });
  return found == std::end(kMessages) ? nullptr : found;
}

std::string line_of(const EventMessage& message, const JournalEntry& entry) {
  std::string line;
  if (!entry.tenant.empty()) line += "tenant " + entry.tenant + ": ";
  if (entry.queue_pair != 0) line += "queue pair " + std::to_string(entry.queue_pair) + ": ";
  line += message.prefix + entry.text;
  if (!entry.peer.empty()) {
    line += " (peer " + entry.peer;
    if (entry.peer_queue_pair != 0) line += ", queue pair " + std::to_string(entry.peer_queue_pair);
    line += ')';
  }
  line += lines_of(entry.past, entry.time);
  return line;
}

EventLimit::Verdict EventLimit::admit(const std::string& tenant, LogLevel level, Time now) {
  Window& window = windows_[{tenant, level}];
  if (now >= window.until) window = {.until = now + kWindow};
  if (window.events == kMost) return Verdict::kDrop;
  return ++window.events == kMost ? Verdict::kLast : Verdict::kLog;
}

void EventReport::report(const JournalEntry& entry, Time now) {
  if (entry.kind == "tenant_removed") limit_.forget(entry.tenant);
  const EventMessage* const message = message_of(entry.kind);
  if (message == nullptr || !spdlog::should_log(message->level)) return;
  const auto verdict = message->limited ? limit_.admit(entry.tenant, message->level, now)
                                        : EventLimit::Verdict::kLog;
  if (verdict == EventLimit::Verdict::kDrop) return;
  log_line(message->level,
           {.message_id = message->id,
            .event = entry.kind,
            .tenant = entry.tenant,
            .queue_pair = entry.queue_pair,
            .process = entry.process,
            .peer = entry.peer,
            .peer_queue_pair = entry.peer_queue_pair},
           line_of(*message, entry));
  if (verdict == EventLimit::Verdict::kLast)
    log_line(spdlog::level::warn, {.message_id = kNotLoggedId, .tenant = entry.tenant},
             "tenant " + entry.tenant +
                 ": further events are not logged, after 16 in 10 s; softhcactl events shows them");
}

}  // namespace softhca::control
