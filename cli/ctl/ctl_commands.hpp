// SPDX-License-Identifier: Apache-2.0

// The commands of softhcactl. Each asks the daemon and prints to standard output; each throws
// CommandError. With -o json or yaml, a command prints the daemon's answer as a document. Only
// measure() asks no daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/admin_client.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {

// --- ctl_show.cpp, ctl_connections.cpp
void show_status(AdminClient& daemon, Output& out);
/// Returns the state of a port of `status`: "up", "set down", "up by eth2" for one with two
/// interfaces.
std::string port_state(const Json& port);
void show_tenants(AdminClient& daemon, Output& out);
void show_tenant(AdminClient& daemon, const std::string& name, Output& out);
/// Selects entries of a list. Empty values select all.
struct Filter {
  std::string tenant;
  std::vector<std::string> states;
  std::string peer;  ///< address, with or without a port
  std::optional<std::uint32_t> pid;

  /// True if the entry has one of the states, the peer and the process id.
  bool keeps(const Json& entry) const;
};
/// Returns the list of a method, with the entries that the filter selects.
Json filtered_list(AdminClient& daemon, const char* method, const Filter& filter);
void show_queue_pairs(AdminClient& daemon, const Filter& filter, Output& out);
void show_shared_receive_queues(AdminClient& daemon, const Filter& filter, Output& out);
void show_connections(AdminClient& daemon, const Filter& filter, Output& out);
/// ctl_qp.cpp
void show_queue_pair(AdminClient& daemon, std::uint32_t qpn, Output& out);
void show_listeners(AdminClient& daemon, const Filter& filter, Output& out);
void show_general_services(AdminClient& daemon, Output& out);
struct EventOptions {
  std::uint64_t after = 0;
  bool follow = false;  ///< until the daemon ends, or a signal arrives
  std::string tenant;   ///< empty: all
  std::optional<std::uint32_t> pid;
};
void show_events(AdminClient& daemon, const EventOptions& options, Output& out);

// --- ctl_change.cpp
/// Changes allocations. `words`: TENANT[/LEVEL][.tvlN] KEY=VALUE..., any number of times, as one
/// request. `save`: keeps the change over reloads and restarts.
void set_allocations(AdminClient& daemon, const std::vector<std::string>& words, bool save,
                     Output& out);
/// As set_allocations(), without any change: shows what would change, and the resulting shares of
/// each tenant and level.
void plan_allocations(AdminClient& daemon, const std::vector<std::string>& words, Output& out);
/// Returns the parameters of `set` for these words. Throws CommandError(kUsage).
Json changes_of(const std::vector<std::string>& words);
/// Returns the value of a key in the daemon's format. `word`: the whole word, for messages. Throws
/// CommandError(kUsage).
Json value_of(std::string_view key, std::string_view text, std::string_view word);
/// Changes a queue pair. `words`: KEY=VALUE..., with the keys srq_limit, importance and those of
/// rates; the value is a number or `policy`.
void set_queue_pair(AdminClient& daemon, std::uint32_t qpn, const std::vector<std::string>& words,
                    Output& out);
/// Returns the parameters of `qp.set` for these words. Throws CommandError(kUsage).
Json terms_of(std::uint32_t qpn, const std::vector<std::string>& words);
/// Takes a port into service (`up`), or out of it.
void set_port(AdminClient& daemon, const std::string& name, bool up, Output& out);
void reload(AdminClient& daemon, bool dry_run, Output& out);
/// Has the daemon replaced by that of a library, without ending connections, and waits for the new
/// one. `library`: empty: the installed one.
void upgrade(AdminClient& daemon, const std::string& library, Output& out);
/// Prints the lines of a change that was made or would be made.
void print_changes(const Json& result, const Output& out);
/// Prints to standard error the parts of a change that were not made.
void print_kept(const Json& result);

// --- ctl_keys.cpp
/// Returns the keys of a kind: SET-KEY (`set`), LEVEL-KEY (`level`) or QP-KEY (`qp set`). Other
/// kinds have none.
const std::vector<std::string>& keys_of(const std::string& kind);

// --- ctl_level.cpp
/// Changes a level through a tenant's own socket. `what`: make, change, rename or remove. `words`:
/// the name of the level, and KEY=VALUE... or its new name.
void change_level(AdminClient& daemon, const std::string& what,
                  const std::vector<std::string>& words, Output& out);
/// Returns the parameters of the method `level.` + `what` for these words. Throws
/// CommandError(kUsage).
Json level_of(const std::string& what, const std::vector<std::string>& words);

// --- ctl_revisions.cpp
void show_revisions(AdminClient& daemon, Output& out);
/// Forgets saved requests; `numbers` empty: all of them.
void drop_saved(AdminClient& daemon, const std::vector<std::uint64_t>& numbers, Output& out);
/// Shows the settings in force that differ from the configuration file, and the saved requests.
void show_difference(AdminClient& daemon, Output& out);
void roll_back(AdminClient& daemon, std::uint64_t revision, Output& out);

// --- ctl_explain.cpp
struct ExplainOptions {
  std::string who;      ///< TENANT[/LEVEL]
  double interval = 2;  ///< seconds
  bool total = false;   ///< since the daemon's start
};
void explain(AdminClient& daemon, const ExplainOptions& options, Output& out);

// --- ctl_tenant.cpp
/// A tenant made on demand. Empty values are those of the template.
struct TenantOptions {
  std::string template_name;
  std::vector<std::string> addresses;
  std::string owner, group;
  std::string mode;  ///< octal
  std::string share, workload;
  std::uint64_t guest_memory = 0;  ///< bytes
  bool save = false;
};
void create_tenant(AdminClient& daemon, const std::string& name, const TenantOptions& options,
                   Output& out);
/// Removes a tenant. `end`: the daemon closes the connections of its programs.
void remove_tenant(AdminClient& daemon, const std::string& name, bool end, Output& out);
/// Returns the mode. Throws CommandError(kUsage).
std::uint32_t mode_of(const std::string& text);

// --- ctl_capture.cpp
struct CaptureArguments {
  std::string tenant;         ///< empty: all
  std::string port;           ///< empty: all, and local traffic of the daemon
  std::string file;           ///< empty or "-": standard output
  std::uint64_t count = 0;    ///< packets; 0: any number
  double seconds = 0;         ///< 0: until a signal arrives
  std::uint32_t snaplen = 0;  ///< bytes kept of a frame; 0: all
  std::uint32_t buffer = 0;   ///< of the ring, in MiB; 0: the daemon's default
};
/// Writes packets as pcapng, and prints their number: to standard error if the packets go to
/// standard output.
void capture(AdminClient& daemon, const CaptureArguments& options, Output& out);

// --- ctl_fault.cpp
/// The daemon chooses values that are empty or missing.
struct FaultOptions {
  std::string kind, tenant, port, direction;
  std::optional<std::uint32_t> qpn;
  std::optional<double> probability;
  std::optional<std::uint64_t> every, count, seed, by;
  std::optional<double> delay, jitter, seconds;
};
void add_fault(AdminClient& daemon, const FaultOptions& options, Output& out);
/// Returns the parameters of `fault.add` for these options.
Json fault_of(const FaultOptions& options);
void show_faults(AdminClient& daemon, Output& out);
/// Prints a table of faults.
void print_faults(const Json& faults, const Output& out);
void remove_faults(AdminClient& daemon, const std::vector<std::uint64_t>& numbers, bool all,
                   Output& out);

// --- ctl_measure.cpp
struct MeasureOptions {
  double seconds = 60;
  unsigned tenants = 0;      ///< with equal shares; 0: as many as cores, at least 4
  std::uint64_t memory = 0;  ///< bytes of the host to propose for; 0: this one's
  std::string from;          ///< a document of an earlier run, the figures of which count
};
/// Measures with daemons of its own, and prints a proposal. Throws CommandError.
void measure(const MeasureOptions& options, Output& out);

// --- ctl_top.cpp
struct TopOptions {
  double interval = 1;      ///< seconds
  std::uint64_t count = 0;  ///< number of updates; 0: until a signal arrives
};
void show_top(AdminClient& daemon, const TopOptions& options, Output& out);

}  // namespace softhca::cli
