// SPDX-License-Identifier: Apache-2.0

// A daemon that softhca-run starts for one program, with its folder.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/admin_client.hpp"
#include "cli/run/run_options.hpp"

namespace softhca::cli {

/// A tenant of a private daemon.
struct PrivateTenant {
  std::string name;
  std::string address;                ///< its first
  std::filesystem::path as;           ///< a program that runs a command with its device
  std::filesystem::path runtime_dir;  ///< of its daemon
};

/// Returns the configuration of a daemon with tenants `a`, `b` and so on, which reach each other
/// only.
std::string configuration_of_tenants(unsigned count);
/// Returns the configuration of a host with one tenant, and a port on UDP sockets of `address`.
std::string configuration_of_host(const std::string& tenant, const std::string& address);
/// Returns two addresses of the loopback interface of which UDP port 4791 is free. Empty: none.
std::vector<std::string> free_loopback_addresses();

/// Returns the last lines of a text, each with an indentation.
std::string last_lines(const std::string& text, std::size_t count);

class PrivateDaemon {
 public:
  /// `name`: of the host, for messages; empty if there is one only. `folder` is made.
  PrivateDaemon(std::string name, std::filesystem::path folder);
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  /// Writes the file that `start` gives to the daemon. Throws if it cannot.
  std::string write_configuration(const std::string& text) const;
  /// Starts the program. Returns why it could not; empty: it runs.
  std::string start(const std::filesystem::path& program, const std::string& configuration,
                    const sigset_t& mask);
  pid_t process() const { return process_; }
  bool running() const { return process_ > 0 && !end_; }
  void ended(int status) { end_ = status; }
  /// Returns "softhcad was killed by signal 9 (Killed)". REQUIRES: it has ended.
  std::string end() const;

  int notify_socket() const { return notify_; }
  /// Reads what the daemon has notified of itself.
  void read_notifications();
  /// True if all sockets of the daemon are open.
  bool ready() const { return ready_; }

  /// Returns the tenants in the order of the configuration. Throws CommandError.
  std::vector<PrivateTenant> tenants() const;
  /// Throws CommandError.
  void inject(const std::vector<LinkFault>& faults, std::uint64_t seed) const;
  /// Returns the events that may explain a failure, a line each. Throws CommandError.
  std::string events() const;
  /// Returns the last lines of its log.
  std::string log() const;
  /// Makes the programs of its tenants: links to `self`, which is softhca-run.
  void make_links(const std::vector<PrivateTenant>& tenants,
                  const std::filesystem::path& self) const;
  /// Returns "softhcad", or "softhcad of host A".
  std::string title() const;

 private:
  std::string admin_socket() const;
  int run(const std::filesystem::path& program, const std::string& configuration, int log) const;

  std::string name_;
  std::filesystem::path folder_;
  pid_t process_ = -1;
  int notify_ = -1;
  bool ready_ = false;
  std::optional<int> end_;
};

/// Returns the tenant and the runtime directory that softhca-run takes if it is run as one of the
/// links of make_links(). `path`: as the kernel was given it.
std::optional<PrivateTenant> tenant_of_link(const std::filesystem::path& path);

}  // namespace softhca::cli
