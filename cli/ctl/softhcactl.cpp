// SPDX-License-Identifier: Apache-2.0

// softhcactl: shows and changes the state of a running softhcad, through its admin socket.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cli/ctl/command_help.hpp"
#include "cli/ctl/command_tree.hpp"
#include "cli/ctl/command_words.hpp"
#include "cli/run_places.hpp"
#include "cli/version.hpp"

namespace softhca::cli {
namespace {

// A key press should not wait longer for names of the daemon.
constexpr int kCompletionSeconds = 1;

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 refused by the daemon, 2 wrong usage, 3 no daemon or no permission, 4 "
    "output that cannot be written. See softhcactl(1).";

std::string socket_path(const Options::Daemon& daemon) {
  if (!daemon.socket.empty()) return daemon.socket;
  const auto found = find_runtime_directory(daemon.runtime_dir);
  if (const auto* failure = std::get_if<Failure>(&found))
    throw CommandError(kUnreachable, failure->message);
  const auto& folder = std::get<std::filesystem::path>(found);
  return (daemon.as.empty() ? folder / "admin.sock" : folder / daemon.as / "control.sock").string();
}

/// Returns the names of a kind that the daemon knows.
std::vector<std::string> names_of(AdminClient& daemon, const std::string& kind) {
  struct Source {
    const char* method;
    const char* list;
    const char* key;
  };
  static const std::map<std::string, Source> kSources = {{"TENANT", {"tenants", "tenants", "name"}},
                                                         {"PORT", {"status", "ports", "name"}},
                                                         {"QPN", {"qps", "qps", "qpn"}}};
  const Source& source = kSources.at(kind);
  const Json reply = daemon.read(source.method);
  std::vector<std::string> names;
  for (const Json& entry : reply.at(source.list)) names.push_back(cell(entry, source.key));
  return names;
}

/// Prints what can stand for the last word. Without a daemon, names of tenants are left out.
int complete(const CLI::App& app, const std::vector<std::string>& words) {
  const auto names = [](const Walk& walk, const std::string& kind) -> std::vector<std::string> {
    try {
      AdminClient daemon(socket_path({.socket = walk.value_of("--socket"),
                                      .runtime_dir = walk.value_of("--runtime-dir"),
                                      .as = ""}),
                         kCompletionSeconds);
      return names_of(daemon, kind);
    } catch (const std::exception&) {
      return {};
    }
  };
  for (const std::string& line : candidates_for(app, words, names)) std::puts(line.c_str());
  return 0;
}

/// Returns the format that the words ask for, also on a command line that cannot be parsed.
Format format_in(const std::vector<std::string>& words) {
  std::string name = "table";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if ((word == "-o" || word == "--output") && i + 1 < words.size())
      name = words[i + 1];
    else if (word.starts_with("--output="))
      name = word.substr(9);
    else if (word.starts_with("-o"))
      name = word.substr(2);
  }
  return name == "json" ? Format::kJson : name == "yaml" ? Format::kYaml : Format::kTable;
}

/// Prints an error, as a document too if that was asked for. Returns the exit code.
int complain(const CommandError& error, Format format) {
  Output out(OutputStyle{.format = format});
  const Json& data = error.data();
  Json document = {{"error", error.what()}};
  if (!data.is_null() && !data.contains("commands")) document["data"] = data;
  out.document(document);
  std::fprintf(stderr, "softhcactl: %s\n", error.what());
  if (!data.is_object()) return error.code();
  for (const char* list : {"problems", "reasons", "refusals"})
    if (data.contains(list))
      for (const Json& line : data[list])
        if (line.is_string()) std::fprintf(stderr, "  %s\n", line.get<std::string>().c_str());
  if (data.contains("commands")) std::fputs(data["commands"].get<std::string>().c_str(), stderr);
  return error.code();
}

/// Returns what the parser says; of a value that it cannot convert, what is expected.
std::string parser_text(const Walk& walk, const CLI::ParseError& error) {
  constexpr std::string_view kNoNumber = "Could not convert: ", kIs = " = ";
  const std::string text = error.what();
  const std::size_t value = text.find(kIs);
  if (!text.starts_with(kNoNumber) || value == std::string::npos) return text;
  const std::string name = text.substr(kNoNumber.size(), value - kNoNumber.size());
  const CLI::Option* const option = walk.option_of(name);
  const std::string kind = option != nullptr ? value_kind(*option) : name;
  const char* const expected = kind == "SECONDS" || kind == "P" ? "a number"
                               : kind == "QPN"                  ? "a number from 0 to 16777215"
                                                                : "a whole number, 0 or more";
  return name + ": \"" + text.substr(value + kIs.size()) + "\" is not " + expected;
}

/// Explains why the words could not be parsed.
CommandError usage_error(const CLI::App& app, const std::vector<std::string>& words,
                         const CLI::ParseError& error) {
  const Walk walk(app, words);
  const Json commands = {{"commands", command_list(walk.app())}};
  if (!walk.wrong().empty()) return {kUsage, walk.wrong_text(), commands};
  if (walk.app().get_require_subcommand_min() != 0 && walk.open_option() == nullptr)
    return {kUsage, place_of(walk.app()) + "a command is missing", commands};
  return {kUsage, parser_text(walk, error) + "; usage: " + usage_of(walk.app())};
}

/// Returns what the user may have meant by the names that the daemon refused.
std::string meant_text(AdminClient& daemon, const Options& options, const std::string& refusal) {
  constexpr std::string_view kNoTenant = "no such tenant: ";
  if (const std::size_t at = refusal.find(kNoTenant); at != std::string::npos) {
    const std::string name = refusal.substr(at + kNoTenant.size());
    return suggestion(name.substr(0, name.find_first_of(" ;,")), names_of(daemon, "TENANT"));
  }
  for (const std::string& word : options.words) {
    const std::string key = word.substr(0, word.find('='));
    std::vector<std::string> keys = keys_of("SET-KEY");
    const std::vector<std::string>& more = keys_of("LEVEL-KEY");
    keys.insert(keys.end(), more.begin(), more.end());
    if (key != word && std::find(keys.begin(), keys.end(), key) == keys.end())
      return suggestion(key, keys);
  }
  return {};
}

/// Runs the command, with --watch again and again.
void run_command(const Options& options) {
  Output out(style_of(format_of(options.print.format), options.print.color, options.print.bytes));
  AdminClient daemon(socket_path(options.daemon));
  const std::optional<double> watch = options.print.watch;
  try {
    if (!watch) return options.command(daemon, out);
    for (;;) {
      out.begin_round();
      options.command(daemon, out);
      flush_output();
      std::this_thread::sleep_for(std::chrono::duration<double>(*watch));
    }
  } catch (const CommandError& error) {
    if (error.code() != kRefused) throw;
    std::string meant;
    try {
      meant = meant_text(daemon, options, error.what());
    } catch (const std::exception&) {  // the refusal says enough
    }
    throw CommandError(kRefused, error.what() + meant, error.data());
  }
}

int run_words(const std::vector<std::string>& words) {
  Options options;
  CLI::App app{"Show and change a running softhcad.", "softhcactl"};
  add_commands(app, options);
  app.set_version_flag("--version", version_text("softhcactl"), "print name, version and commit");
  app.footer(kFooter);
  if (!words.empty() && words.front() == "__complete")
    return complete(app, {words.begin() + 1, words.end()});
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
    if (options.without_daemon)
      options.without_daemon();
    else
      run_command(options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    return complain(usage_error(app, words, error), format_in(words));
  } catch (const CommandError& error) {
    return complain(error, format_in(words));
  } catch (const Json::exception& error) {
    const std::string why = "unexpected reply from the daemon, which may be of another version: ";
    return complain({kUnreachable, why + error.what()}, format_in(words));
  }
  return 0;
}

int run(const std::vector<std::string>& words) {
  const int code = run_words(words);
  if (code != 0) return code;
  try {
    flush_output();
  } catch (const CommandError& error) {
    return complain(error, Format::kTable);
  }
  return 0;
}

}  // namespace
}  // namespace softhca::cli

int main(int argc, char** argv) { return softhca::cli::run({argv + 1, argv + argc}); }
