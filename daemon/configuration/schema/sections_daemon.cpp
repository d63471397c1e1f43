// SPDX-License-Identifier: Apache-2.0

// The keys of [daemon], [admin], [metrics] and [device], and of the sockets in other tables.
#include <algorithm>

#include "daemon/configuration/schema/reader.hpp"
#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/schema/text_rules.hpp"

namespace softhca::configuration {
namespace {

constexpr std::array<std::string_view, 2> kIdlePolicies = {"poll", "adaptive"};

bool is_log_level(std::string_view text) {
  static constexpr std::array<std::string_view, 7> kLevels = {
      "trace", "debug", "info", "warning", "error", "critical", "off"};
  return std::find(kLevels.begin(), kLevels.end(), text) != kLevels.end();
}

constexpr Key kDaemonKeys[] = {
    {.name = "runtime_dir",
     .at = at<&DaemonConfig::runtime_dir>,
     .text = {[](std::string_view text) { return text.starts_with('/'); },
              "must be an absolute path, beginning with '/'"},
     .refusal = kSockets,
     .doc = "Directory of the tenants' sockets and device trees: <runtime_dir>/<tenant>/... "
            "Default: $RUNTIME_DIRECTORY, else /run/softhca for root, else "
            "$XDG_RUNTIME_DIR/softhca, else /tmp/softhca-<uid>.",
     .shown = Shown::kOff,
     .sample = "\"/run/softhca\""},
    {.name = "state_dir",
     .at = at<&DaemonConfig::state_dir>,
     .text = {[](std::string_view text) { return text.starts_with('/'); },
              "must be an absolute path, beginning with '/'"},
     .refusal = kState,
     .doc = "Directory of saved.json, which has the changes of `softhcactl set --save`. Default: "
            "$STATE_DIRECTORY, else none: nothing can be saved.",
     .shown = Shown::kOff,
     .sample = "\"/var/lib/softhca\""},
    {.name = "log_level",
     .at = at<&DaemonConfig::log_level>,
     .text = {is_log_level, "must be trace, debug, info, warning, error, critical or off"},
     .doc = "trace, debug, info, warning, error, critical or off."},
    {.name = "idle",
     .at = at<&DaemonConfig::idle>,
     .words = kIdlePolicies,
     .doc = "\"poll\": the engine never sleeps. \"adaptive\": a process that has been idle for 200 "
            "µs is parked (it wakes the engine at its next post), and the engine sleeps when all "
            "are parked."},
    {.name = "drain_timeout_s",
     .at = at<&DaemonConfig::drain_timeout>,
     .range = {0, 7 * 86'400},
     .unit = "s",
     .doc = "A tenant that a reload removes takes no new sessions. After this many seconds its "
            "sessions are closed. 0: they continue until their programs end."},
    {.name = "engine_cpu",
     .at = at<&DaemonConfig::engine_cpu>,
     .range = {0, 4095},
     .refusal = kThread,
     .doc = "Core to which the engine is pinned. Default: the kernel chooses.",
     .shown = Shown::kOff,
     .sample = "1"},
};
constexpr Schema kDaemon{.keys = kDaemonKeys};

constexpr Key kAdminKeys[] = {
    {.name = "socket",
     .at = at<&AdminConfig::socket>,
     .table = schema_of<SocketConfig>,
     .refusal = kAdmin,
     .doc = "owner, group and mode of the socket"},
};
constexpr Schema kAdminTable{
    .comment =
        "The admin socket, <runtime_dir>/admin.sock, through which softhcactl shows and changes "
        "everything. Owner and group are as for a tenant.",
    .keys = kAdminKeys};

constexpr Key kSocketKeys[] = {
    {.name = "owner",
     .at = at<&SocketConfig::owner>,
     .doc = "a user's name or number; empty: the daemon's"},
    {.name = "group",
     .at = at<&SocketConfig::group>,
     .doc = "a group's name or number; empty: the daemon's"},
    {.name = "mode",
     .at = at<&SocketConfig::mode>,
     .range = {0, 0777},
     .octal = true,
     .hint = "; write it in octal, as 0o660",
     .doc = "file permissions for clients; default for [admin] and for a control socket: 0o600"},
};
constexpr Schema kSocket{
    .comment = "A socket of the daemon. A reload cannot change that of [admin].",
    .keys = kSocketKeys};

bool is_listen_address(std::string_view text) {
  return text.empty() || parse_listen_address(text).has_value();
}

constexpr Key kMetricsKeys[] = {
    {.name = "address",
     .at = at<&MetricsConfig::address>,
     .text = {is_listen_address,
              "must be like \"127.0.0.1:9465\" or \"[::1]:9465\" (not link-local), or \"\" for no "
              "endpoint"},
     .doc = "Address on which the daemon serves /metrics for Prometheus; \"\": no endpoint. IPv6: "
            "\"[::1]:9465\". \"[::]:9465\" is every address, also of IPv4. If no file sets the "
            "address and the default is in use by another program, the daemon starts without "
            "metrics."},
    {.name = "credentials_file",
     .at = at<&MetricsConfig::credentials_file>,
     .text = {[](std::string_view text) { return text.empty() || text.starts_with('/'); },
              "must be an absolute path, beginning with '/', or \"\" for none"},
     .doc = "A file with a bearer token in its first line, which scrapers must send (authorization "
            "of Prometheus, which may read the same file). The daemon reads it at each scrape, so "
            "the token may change. \"\": each client that reaches the address can read the metrics "
            "of all tenants."},
};

void check_metrics(Reader& reader, void* section) {
  static_cast<MetricsConfig*>(section)->chosen = reader.find("address") != nullptr;
}
constexpr Schema kMetrics{.keys = kMetricsKeys, .check = check_metrics};

constexpr Key kDeviceKeys[] = {
    {.name = "name", .at = at<&DeviceConfig::name>, .text = kSafeName, .refusal = kDevice},
};
constexpr Schema kDeviceTable{.comment = "The device as tenants see it (ibv_devinfo).",
                              .keys = kDeviceKeys};

}  // namespace

template <>
const Schema& schema_of<DaemonConfig>() {
  return kDaemon;
}
template <>
const Schema& schema_of<AdminConfig>() {
  return kAdminTable;
}
template <>
const Schema& schema_of<SocketConfig>() {
  return kSocket;
}
template <>
const Schema& schema_of<MetricsConfig>() {
  return kMetrics;
}
template <>
const Schema& schema_of<DeviceConfig>() {
  return kDeviceTable;
}

}  // namespace softhca::configuration
