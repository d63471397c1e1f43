// SPDX-License-Identifier: Apache-2.0

// The commands and options of softhcactl. Help, completion and the messages for wrong words are
// made from this tree.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/ctl/ctl_commands.hpp"

namespace softhca::cli {

/// What a command line asks for.
struct Options {
  struct Daemon {
    std::string socket;
    std::string runtime_dir;
    std::string as;  ///< name of a tenant
  };
  struct Print {
    std::string format = "table";
    std::string color = "auto";
    bool bytes = false;
    std::optional<double> watch;  ///< seconds between two rounds
  };

  Daemon daemon;
  Print print;
  Filter filter;
  std::string tenant;
  std::vector<std::string> words;
  std::string port;
  std::uint32_t qpn = 0;
  std::uint64_t revision = 0;
  bool dry_run = false;
  std::string library;
  bool save = false;
  bool all = false;
  bool end = false;
  bool once = false;
  std::vector<std::uint64_t> numbers;
  TenantOptions made;
  TopOptions top;
  EventOptions events;
  ExplainOptions explain;
  CaptureArguments capture;
  FaultOptions fault;
  MeasureOptions measure;
  /// The command that was given, after a parse. Exactly one of these two is set.
  std::function<void(AdminClient&, Output&)> command;
  std::function<void()> without_daemon;
};

/// Adds all commands. The type name of an option or argument says what values it takes: words with
/// "|" between them, or a kind of candidates_for() (command_words.hpp).
void add_commands(CLI::App& app, Options& options);

}  // namespace softhca::cli
