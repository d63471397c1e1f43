// SPDX-License-Identifier: Apache-2.0

// measure: what the adapter can do on this host, and what may be promised to its tenants.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/measure/measurement.hpp"

namespace softhca::cli {
namespace {

constexpr char kClearLine[] = "\r\x1b[K";
// A turn that reached less than this part of the best one tells of other load.
constexpr double kSteady = 0.8;

/// Shows the step in progress, if standard error is a terminal.
class Progress {
 public:
  void begin(const std::string& step) const {
    if (shown_) std::fprintf(stderr, "%smeasuring: %s...", kClearLine, step.c_str());
  }
  ~Progress() {
    if (shown_) std::fputs(kClearLine, stderr);
  }

 private:
  const bool shown_ = ::isatty(STDERR_FILENO) == 1;
};

struct Findings {
  Host host;
  Figures figures;
  Proposal proposal;
  Measurement::AtProposal at;

  double most_memory() const { return cli::most_memory(proposal, figures.memory, at.daemon); }
  double all_together() const {
    return std::accumulate(figures.together.begin(), figures.together.end(), 0.0);
  }
  /// Returns the part of all messages that the tenant with the fewest had.
  double least_share() const {
    return *std::min_element(figures.together.begin(), figures.together.end()) / all_together();
  }
};

void warn_of_other_load(Host& host, const Figures& figures) {
  double least = 1;
  for (const auto* rates : {&figures.local, &figures.wire})
    for (const WriteRate& rate : *rates) least = std::min(least, rate.least / rate.best);
  char text[120];
  std::snprintf(text, sizeof text,
                "one turn reached only %.0f %% of the best: other programs ran; measure again",
                100 * least);
  if (least < kSteady) host.warnings.emplace_back(text);
}

Json json_of(const Findings& found) {
  Json promised = Json::object();
  for (const Promise& promise : promises(found.host, found.proposal, found.figures))
    promised[promise.key] = {{"all", promise.all}, {"each", promise.each}, {"from", promise.from}};
  Json document = document_of(found.figures);
  document["memory"].update({{"daemon_bytes", found.at.daemon},
                             {"tenant_bytes", found.at.tenant},
                             {"most_bytes", found.most_memory()}});
  document.update({{"host",
                    {{"cores", found.host.cores},
                     {"memory_bytes", found.host.memory},
                     {"descriptors", found.host.descriptors},
                     {"load", found.host.load}}},
                   {"warnings", found.host.warnings},
                   {"tenants", found.proposal.tenants},
                   {"share", found.proposal.share},
                   {"promise", promised},
                   {"configuration", configuration_text(found.proposal)}});
  return document;
}

/// Reads the figures of an earlier run.
Figures read_figures(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw CommandError(kUsage, "--from " + path + ": " + std::strerror(errno));
  const Json document = Json::parse(file, nullptr, false);
  std::string problem = document.is_discarded() ? "is not JSON" : "lacks a figure";
  try {
    return figures_of(document);
  } catch (const CommandError& error) {
    problem = error.what();
  } catch (const Json::exception&) {
  }
  throw CommandError(kUsage, "--from " + path + ": " + problem +
                                 "; give the output of `softhcactl measure -o json`");
}

std::string decimals(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// Returns "64 B", "4 KiB" or "1 MiB".
std::string size_text(std::uint64_t bytes) {
  return bytes < 1024      ? std::to_string(bytes) + " B"
         : bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KiB"
                           : std::to_string(bytes >> 20) + " MiB";
}

void add_rates(TextTable& table, const char* where, const std::vector<WriteRate>& rates,
               const Output& out) {
  for (const WriteRate& rate : rates)
    table.add({size_text(rate.bytes), where, out.rate(rate.best), out.byte_rate(rate.byte_rate()),
               decimals(rate.best / rate.memcpy, 2), decimals(rate.least / rate.best, 2)});
}

void print_rates(const Findings& found, const Output& out) {
  TextTable table({"WRITES", "WHERE", "MESSAGES", "BYTES", "OF-MEMCPY", "WORST/BEST"});
  add_rates(table, "within a daemon", found.figures.local, out);
  add_rates(table, "two daemons, loopback", found.figures.wire, out);
  out.section(table);
  out.print("A write of 64 bytes, one at a time: " + decimals(found.figures.latency_p50_us, 1) +
            " us, 99 % within " + decimals(found.figures.latency_p99_us, 1) + " us.\n" +
            std::to_string(found.figures.together.size()) +
            " tenants at once, writes of 64 bytes: " + out.rate(found.all_together()) +
            " in all; the last one had " + decimals(100 * found.least_share(), 1) + " %.\n");
}

void print_memory(const Findings& found, const Output& out) {
  const MemoryCosts& memory = found.figures.memory;
  TextTable table({"MEMORY", "EACH", "WHAT"});
  table.add({"daemon", out.bytes(found.at.daemon), "with these pools and tenants, idle"});
  table.add({"tenant", out.bytes(found.at.tenant), ""});
  table.add({"session", out.bytes(memory.session), "a device that a program has open"});
  table.add({"queue pair", out.bytes(memory.queue_pair + memory.queue_pair_queues),
             "with " + decimals(memory.queue_pair_depth, 0) + " sends and receives"});
  table.add({"completion entry", out.bytes(memory.completion_entry), "of a completion queue"});
  table.add({"registered GiB", out.bytes(memory.registered_gib), "page tables of the daemon"});
  table.add({"all pools in use", out.bytes(found.most_memory()), "daemon and queues"});
  out.section(table);
}

std::string promised_text(double amount, Promise::Unit unit, const Output& out) {
  switch (unit) {
    case Promise::Unit::kCount:
      return out.count(amount);
    case Promise::Unit::kBytes:
      return out.bytes(amount);
    case Promise::Unit::kRate:
      return out.rate(amount);
    case Promise::Unit::kByteRate:
      break;
  }
  return out.byte_rate(amount);
}

void print_promises(const Findings& found, const Output& out) {
  TextTable table(
      {"PROMISE", "ALL", "EACH OF " + std::to_string(found.proposal.tenants), "FOLLOWS FROM"});
  for (const Promise& promise : promises(found.host, found.proposal, found.figures))
    table.add({promise.what, promised_text(promise.all, promise.unit, out),
               promised_text(promise.each, promise.unit, out), promise.from});
  out.section(table);
}

}  // namespace

void measure(const MeasureOptions& options, Output& out) {
  Findings found{};
  found.host = read_host();
  if (options.memory != 0) found.host.memory = options.memory;
  {
    const Progress progress;
    Measurement measurement(options.seconds,
                            [&](const std::string& step) { progress.begin(step); });
    found.figures = options.from.empty() ? measurement.figures() : read_figures(options.from);
    const unsigned tenants = options.tenants != 0 ? options.tenants : default_tenants(found.host);
    found.proposal = propose(found.host, tenants, found.figures);
    found.at = measurement.at(found.proposal);
  }
  if (options.from.empty()) warn_of_other_load(found.host, found.figures);
  const std::string fewer = why_fewer_sessions(found.host, found.proposal);
  if (!fewer.empty()) found.host.warnings.push_back(fewer);
  if (out.document(json_of(found))) return;
  out.print("Host: " + decimals(found.host.cores, found.host.cores < 1 ? 1 : 0) + " cores, " +
            out.bytes(static_cast<double>(found.host.memory)) + " of memory, " +
            std::to_string(found.host.descriptors) + " open files a process\n");
  for (const std::string& warning : found.host.warnings) out.print("warning: " + warning + "\n");
  print_rates(found, out);
  print_memory(found, out);
  print_promises(found, out);
  out.print("\nProposed configuration. Give each tenant share = \"" + found.proposal.share +
            "\". What a tenant leaves, the others may use.\n\n");
  std::fputs(configuration_text(found.proposal).c_str(), stdout);
}

}  // namespace softhca::cli
