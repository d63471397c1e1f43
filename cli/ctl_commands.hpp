// The commands of softhcactl. Each asks the daemon and prints to standard output; each throws
// CommandError. With `json` they print what the daemon answered, in one line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/admin_client.hpp"

namespace softhca::cli {

// --- ctl_show.cpp, ctl_connections.cpp
void show_status(AdminClient& daemon, bool json);
void show_tenants(AdminClient& daemon, bool json);
void show_tenant(AdminClient& daemon, const std::string& name, bool json);
/// `tenant` empty: of all tenants.
void show_queue_pairs(AdminClient& daemon, const std::string& tenant, bool json);
void show_shared_receive_queues(AdminClient& daemon, const std::string& tenant, bool json);
void show_connections(AdminClient& daemon, const std::string& tenant, bool json);
/// ctl_qp.cpp
void show_queue_pair(AdminClient& daemon, std::uint32_t qpn, bool json);
void show_listeners(AdminClient& daemon, const std::string& tenant, bool json);
void show_general_services(AdminClient& daemon, bool json);
struct EventOptions {
  std::uint64_t after = 0;
  bool follow = false;  ///< until the daemon goes, or a signal comes
  std::string tenant;   ///< empty: all
};
void show_events(AdminClient& daemon, const EventOptions& options, bool json);

// --- ctl_change.cpp
/// `words`: TENANT[/LEVEL][.tvlN] KEY=VALUE..., any number of times; all of it is one request.
/// `save`: for reloads and restarts, too.
void set_allocations(AdminClient& daemon, const std::vector<std::string>& words, bool save,
                     bool json);
/// As set_allocations(), but nothing changes: shows what would change, and what every tenant and
/// level may then count on.
void plan_allocations(AdminClient& daemon, const std::vector<std::string>& words, bool json);
/// The parameters of `set` for these words. Throws CommandError(kUsage).
Json changes_of(const std::vector<std::string>& words);
/// The value of a key, as the daemon takes it. `word`: all of it, for messages. Throws likewise.
Json value_of(std::string_view key, std::string_view text, std::string_view word);
/// `words`: KEY=VALUE..., of srq_limit and importance; the value is a number or `policy`.
void set_queue_pair(AdminClient& daemon, std::uint32_t qpn, const std::vector<std::string>& words,
                    bool json);
/// The parameters of `qp.set` for these. Throws CommandError(kUsage).
Json terms_of(std::uint32_t qpn, const std::vector<std::string>& words);
void reload(AdminClient& daemon, bool dry_run, bool json);

// --- ctl_level.cpp
/// `what`: make, change, rename or remove. `words`: the name of the level, and KEY=VALUE... or its
/// new name. To be asked by a tenant's own socket.
void change_level(AdminClient& daemon, const std::string& what,
                  const std::vector<std::string>& words, bool json);
/// The parameters of the method `level.` + `what` for these. Throws CommandError(kUsage).
Json level_of(const std::string& what, const std::vector<std::string>& words);

// --- ctl_revisions.cpp
void show_revisions(AdminClient& daemon, bool json);
/// Forgets saved requests; `numbers` empty: all.
void drop_saved(AdminClient& daemon, const std::vector<std::uint64_t>& numbers, bool json);
/// What is in force and not in the configuration file, and what is saved.
void show_difference(AdminClient& daemon, bool json);
void roll_back(AdminClient& daemon, std::uint64_t revision, bool json);

// --- ctl_explain.cpp
struct ExplainOptions {
  std::string who;      ///< TENANT[/LEVEL]
  double interval = 2;  ///< seconds
  bool total = false;   ///< since the daemon began, instead
};
void explain(AdminClient& daemon, const ExplainOptions& options, bool json);

// --- ctl_tenant.cpp
/// A tenant to be made on demand. Empty: as the template says.
struct TenantOptions {
  std::string template_name;
  std::vector<std::string> addresses;
  std::string owner, group;
  std::string mode;  ///< octal
  bool save = false;
};
void create_tenant(AdminClient& daemon, const std::string& name, const TenantOptions& options,
                   bool json);
/// `end`: connections of its programs are closed.
void remove_tenant(AdminClient& daemon, const std::string& name, bool end, bool json);
/// The mode; throws CommandError(kUsage).
std::uint32_t mode_of(const std::string& text);

// --- ctl_capture.cpp
struct CaptureOptions {
  std::string tenant;         ///< empty: all
  std::string port;           ///< empty: all, and what stays inside the daemon
  std::string file;           ///< empty or "-": standard output
  std::uint64_t count = 0;    ///< packets; 0: any number
  double seconds = 0;         ///< 0: until a signal comes
  std::uint32_t snaplen = 0;  ///< bytes of a frame that are kept; 0: all
  std::uint32_t buffer = 0;   ///< of the ring, in MiB; 0: the daemon's default
};
/// Writes packets as pcapng. With `json`, prints how many there were, unless they go to standard
/// output themselves.
void capture(AdminClient& daemon, const CaptureOptions& options, bool json);

// --- ctl_fault.cpp
/// What is empty or not there is left to the daemon.
struct FaultOptions {
  std::string kind, tenant, port, direction;
  std::optional<std::uint32_t> qpn;
  std::optional<double> probability;
  std::optional<std::uint64_t> every, count, seed, by;
  std::optional<double> delay, jitter, seconds;
};
void add_fault(AdminClient& daemon, const FaultOptions& options, bool json);
/// The parameters of `fault.add` for these.
Json fault_of(const FaultOptions& options);
void show_faults(AdminClient& daemon, bool json);
/// A table of them.
void print_faults(const Json& faults);
void remove_faults(AdminClient& daemon, const std::vector<std::uint64_t>& numbers, bool all,
                   bool json);

// --- ctl_top.cpp
struct TopOptions {
  double interval = 1;      ///< seconds
  std::uint64_t count = 0;  ///< how often; 0: until a signal comes
};
void show_top(AdminClient& daemon, const TopOptions& options, bool json);

}  // namespace softhca::cli
