// SPDX-License-Identifier: Apache-2.0

// softhcactl: shows and changes the state of a running softhcad, through its admin socket.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cli/ctl_commands.hpp"
#include "cli/ctl_text.hpp"
#include "cli/run_places.hpp"

namespace softhca::cli {
namespace {

struct Options {
  std::string socket;
  std::string runtime_dir;
  std::string as;  ///< name of a tenant
  bool json = false;
  std::string tenant;
  std::vector<std::string> words;
  std::string level;  ///< action on a level
  std::uint32_t qpn = 0;
  std::uint64_t revision = 0;
  bool dry_run = false;
  bool save = false;
  bool all = false;
  std::vector<std::uint64_t> numbers;
  TenantOptions made;
  bool end = false;
  bool once = false;
  TopOptions top;
  EventOptions events;
  ExplainOptions explain;
  CaptureArguments capture;
  FaultOptions fault;
};

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 refused by the daemon, 2 wrong usage, 3 no daemon or no permission.\n"
    "See softhcactl(1).";

std::string socket_path(const Options& options) {
  if (!options.socket.empty()) return options.socket;
  const auto found = find_runtime_directory(options.runtime_dir);
  if (const auto* failure = std::get_if<Failure>(&found))
    throw CommandError(kUnreachable, failure->message);
  const auto& folder = std::get<std::filesystem::path>(found);
  return (options.as.empty() ? folder / "admin.sock" : folder / options.as / "control.sock")
      .string();
}

void add_common(CLI::App& app, Options& options) {
  app.add_option("--socket", options.socket, "the daemon's admin socket")->type_name("PATH");
  app.add_option("--runtime-dir", options.runtime_dir,
                 "where the daemon keeps its sockets, as for softhca-run")
      ->type_name("DIR");
  app.add_option("--as", options.as,
                 "act as this tenant, through its own socket: `set` for its levels, `level`, "
                 "`tenant show`, `explain`")
      ->type_name("TENANT");
  app.add_flag("--json", options.json, "print the daemon's reply as JSON");
  app.set_version_flag("--version", SOFTHCA_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
}

void add_tenant_changes(CLI::App& tenant, Options& options) {
  TenantOptions& made = options.made;
  CLI::App* create = tenant.add_subcommand("create", "make a tenant from a template");
  create->add_option("NAME", options.tenant, "the tenant")->required();
  create->add_option("--template", made.template_name, "a [[template]] of the configuration")
      ->required()
      ->type_name("NAME");
  create
      ->add_option("--address", made.addresses,
                   "its address; repeat the option for several; default: one of the template's")
      ->type_name("ADDRESS");
  create->add_option("--owner", made.owner, "owner of its socket")->type_name("USER");
  create->add_option("--group", made.group, "group of its socket")->type_name("GROUP");
  create->add_option("--mode", made.mode, "mode of its socket, in octal")->type_name("MODE");
  create->add_option("--share", made.share, "share of the adapter")->type_name("PERCENT%");
  create->add_option("--class", made.workload, "class of its work: standard, latency or bulk")
      ->type_name("CLASS");
  create->add_flag("--save", made.save, "keep the tenant after restarts");
  CLI::App* remove = tenant.add_subcommand(
      "remove", "remove a tenant that `create` made; its programs continue until they end");
  remove->add_option("NAME", options.tenant, "the tenant")->required();
  remove->add_flag("--end", options.end, "close the connections of its programs");
}

CLI::App* add_show(CLI::App& app, Options& options) {
  app.add_subcommand("status", "the daemon, its ports and its pools");
  app.add_subcommand("tenants", "one line for each tenant");
  CLI::App* tenant = app.add_subcommand("tenant", "one tenant");
  tenant->require_subcommand(1);
  tenant->add_subcommand("show", "allocations, TVLs, limits and processes of a tenant")
      ->add_option("NAME", options.tenant, "the tenant")
      ->required();
  add_tenant_changes(*tenant, options);
  for (CLI::App* list : {app.add_subcommand("qps", "queue pairs"),
                         app.add_subcommand("srqs", "shared receive queues"),
                         app.add_subcommand("connections", "connections by rdma_cm"),
                         app.add_subcommand("listeners", "listeners of rdma_cm")})
    list->add_option("-t,--tenant", options.tenant, "only those of this tenant")->type_name("NAME");
  app.add_subcommand("gsa", "the general services agent: its clients and their datagrams");
  CLI::App* events = app.add_subcommand("events", "recent events");
  events->add_flag("-f,--follow", options.events.follow, "keep printing new events");
  events->add_option("-t,--tenant", options.events.tenant, "only those of this tenant")
      ->type_name("NAME");
  events->add_option("--after", options.events.after, "only events after this number")
      ->type_name("N");
  return tenant;
}

void add_change(CLI::App& app, Options& options) {
  CLI::App* set = app.add_subcommand("set", "change allocations: all that are given, or none");
  set->add_option("CHANGE", options.words, "TENANT[/LEVEL][.tvlN] KEY=VALUE..., once or more")
      ->required();
  set->add_flag("--dry-run", options.dry_run,
                "only print what would change, and the guarantees and ceilings of each tenant then")
      ->excludes(
          set->add_flag("--save", options.save, "keep the change after reloads and restarts"));
  CLI::App* level = app.add_subcommand("level", "levels that a tenant makes itself (with --as)");
  level->require_subcommand(1);
  const auto add_level = [&](const char* what, const char* words, const char* text) {
    CLI::App* command = level->add_subcommand(what, text);
    command->add_option("NAME", options.words, words)->required();
    command->callback([&options, what] { options.level = what; });
  };
  add_level("make",
            "its name, and KEY=VALUE...: keys of `set`, and default, dscp, cgroups, "
            "service_levels, traffic_classes",
            "make a level");
  add_level("change", "its name, and KEY=VALUE...", "change a level");
  add_level("rename", "its name, and the new one", "give a level another name");
  add_level("remove", "its name", "remove a level; its programs continue until they end");
  CLI::App* queue_pair = app.add_subcommand("qp", "one queue pair");
  queue_pair->require_subcommand(1);
  queue_pair->add_subcommand("show", "state, peer, attributes and latest events of a queue pair")
      ->add_option("QPN", options.qpn, "its number")
      ->required();
  CLI::App* terms = queue_pair->add_subcommand(
      "set", "rates of a queue pair; its limit and importance on its shared receive queue");
  terms->add_option("QPN", options.qpn, "its number")->required();
  terms
      ->add_option(
          "CHANGE", options.words,
          "KEY=VALUE... Rate of what it may send (0: no limit): bytes_per_second=N, burst_bytes=N, "
          "messages_per_second=N, burst_messages=N. Guaranteed rate: min_bytes_per_second=N. Rates "
          "of what its peer may send to it or read from it: inbound_rate.bytes_per_second=N, "
          "served_rate.bytes_per_second=N and so on. Shared receive queue: srq_limit=N (buffers; "
          "0: no limit), importance=N (0 to 7). The value `policy` restores the default")
      ->required();
  app.add_subcommand("reload", "put the configuration file into force")
      ->add_flag("--dry-run", options.dry_run, "only print what would change");
}

void add_revisions(CLI::App& app, Options& options) {
  app.add_subcommand("revisions", "the changes made so far: time, cause, process, keys");
  app.add_subcommand("diff",
                     "differences between the file and the configuration in force; saved requests");
  CLI::App* saved =
      app.add_subcommand("saved", "changes that `set --save` saved (`diff` lists them)");
  saved->require_subcommand(1);
  CLI::App* drop =
      saved->add_subcommand("drop", "drop saved requests; takes effect at the next reload");
  CLI::Option* numbers = drop->add_option("NUMBER", options.numbers, "as `diff` shows them");
  drop->add_flag("--all", options.all,
                 "all of them, also if the file of saved requests cannot be read")
      ->excludes(numbers);
  app.add_subcommand("rollback", "put the allocations of an earlier revision into force")
      ->add_option("REVISION", options.revision, "its number")
      ->required();
}

void add_explain(CLI::App& app, Options& options) {
  CLI::App* explain = app.add_subcommand(
      "explain",
      "what the send commands of a tenant or level wait for, and which setting would help");
  explain->add_option("TENANT", options.explain.who, "TENANT or TENANT/LEVEL")->required();
  CLI::Option* interval = explain
                              ->add_option("-i,--interval", options.explain.interval,
                                           "seconds to observe it; default: 2")
                              ->check(CLI::Range(0.05, 3600.0));
  explain->add_flag("--total", options.explain.total, "since the daemon started")
      ->excludes(interval);
}

void add_capture(CLI::App& app, Options& options) {
  CaptureArguments& of = options.capture;
  CLI::App* capture = app.add_subcommand("capture", "packets of tenants, as pcapng");
  capture->add_option("-t,--tenant", of.tenant, "only those of this tenant")->type_name("NAME");
  capture
      ->add_option("-p,--port", of.port,
                   "only packets of this port; default: all, also messages inside the daemon")
      ->type_name("NAME");
  capture->add_option("-w,--write", of.file, "the file; default: standard output")
      ->type_name("FILE");
  capture->add_option("-n,--count", of.count, "end after this many packets")->type_name("N");
  capture->add_option("--seconds", of.seconds, "end after this many seconds")
      ->type_name("S")
      ->check(CLI::Range(0.05, 1e9));
  capture->add_option("-s,--snaplen", of.snaplen, "bytes to keep of each packet; default: all")
      ->type_name("N")
      ->check(CLI::Range(1, 262144));
  capture
      ->add_option("--buffer", of.buffer,
                   "size of the packet buffer in MiB, a power of two; default: 16")
      ->type_name("MIB")
      ->check(CLI::Range(1, 64));
}

void add_fault_adding(CLI::App& fault, FaultOptions& of) {
  CLI::App* add = fault.add_subcommand("add", "inject a fault");
  add->add_option("KIND", of.kind, "drop, delay, duplicate, reorder, corrupt, mark or rnr")
      ->required();
  add->add_option("-t,--tenant", of.tenant, "affect what this tenant sends and receives")
      ->type_name("NAME");
  add->add_option("-p,--port", of.port, "affect what passes this port")->type_name("NAME");
  add->add_option("-q,--qp", of.qpn, "affect what this queue pair sends and receives")
      ->type_name("QPN");
  add->add_option("-d,--direction", of.direction, "sent or received; default: both")
      ->type_name("DIRECTION");
  CLI::Option* every =
      add->add_option("--every", of.every, "affect each n-th packet or message")->type_name("N");
  add->add_option("--probability", of.probability,
                  "affect each packet or message with this probability, 0 to 1")
      ->type_name("P")
      ->excludes(every);
  add->add_option("--seed", of.seed,
                  "seed of the random draws; equal seeds select equal packets; default: 1")
      ->type_name("N");
  add->add_option("-n,--count", of.count, "inject the fault at most this many times")
      ->type_name("N");
  add->add_option("--for", of.seconds, "seconds until it ends; default: 300")->type_name("S");
  add->add_option("--delay", of.delay,
                  "for delay: seconds; for reorder: the most seconds, default 0.01")
      ->type_name("S");
  add->add_option("--jitter", of.jitter,
                  "for delay: add a random delay of at most this many seconds")
      ->type_name("S");
  add->add_option("--by", of.by,
                  "for reorder: send a packet after this many later ones; default: 3")
      ->type_name("N");
}

void add_faults(CLI::App& app, Options& options) {
  CLI::App* fault = app.add_subcommand("fault", "inject faults, to test programs");
  fault->require_subcommand(1);
  add_fault_adding(*fault, options.fault);
  fault->add_subcommand("list",
                        "faults in force, with the number of packets they matched and affected");
  CLI::App* remove = fault->add_subcommand("remove", "end faults before their time");
  CLI::Option* numbers = remove->add_option("NUMBER", options.numbers, "as `list` shows them");
  remove->add_flag("--all", options.all, "all of them")->excludes(numbers);
}

void add_top(CLI::App& app, Options& options) {
  CLI::App* top = app.add_subcommand("top", "activity of the tenants per second, in samples");
  top->add_option("-i,--interval", options.top.interval, "seconds between two samples; default: 1")
      ->check(CLI::Range(0.05, 3600.0));
  CLI::Option* count =
      top->add_option("-n,--count", options.top.count, "end after this many samples");
  top->add_flag("--once", options.once, "the same as --count 1")->excludes(count);
}

void run_fault(const CLI::App& fault, AdminClient& daemon, const Options& options) {
  if (fault.got_subcommand("add")) return add_fault(daemon, options.fault, options.json);
  if (fault.got_subcommand("list")) return show_faults(daemon, options.json);
  remove_faults(daemon, options.numbers, options.all, options.json);
}

void run_command(const CLI::App& app, const CLI::App& tenant, Options& options) {
  const bool json = options.json;
  if (options.once) options.top.count = 1;
  // Checks the command line first, so that its errors need no daemon.
  if (app.got_subcommand("set")) changes_of(options.words);
  if (app.got_subcommand("saved") && options.numbers.empty() && !options.all)
    throw CommandError(kUsage,
                       "give the numbers of saved requests, as `diff` shows them, or --all");
  const CLI::App* const qp = app.get_subcommand("qp");
  if (qp->got_subcommand("set")) terms_of(options.qpn, options.words);
  if (!options.made.mode.empty()) mode_of(options.made.mode);
  if (app.got_subcommand("level")) {
    if (options.as.empty() && options.socket.empty())
      throw CommandError(kUsage,
                         "only a tenant changes its levels: softhcactl --as TENANT level ...");
    level_of(options.level, options.words);
  }
  AdminClient daemon(socket_path(options));
  if (app.got_subcommand("status")) return show_status(daemon, json);
  if (app.got_subcommand("tenants")) return show_tenants(daemon, json);
  if (tenant.got_subcommand("create"))
    return create_tenant(daemon, options.tenant, options.made, json);
  if (tenant.got_subcommand("remove"))
    return remove_tenant(daemon, options.tenant, options.end, json);
  if (app.got_subcommand(&tenant)) return show_tenant(daemon, options.tenant, json);
  if (app.got_subcommand("explain")) return explain(daemon, options.explain, json);
  if (app.got_subcommand("qps")) return show_queue_pairs(daemon, options.tenant, json);
  if (app.got_subcommand("srqs")) return show_shared_receive_queues(daemon, options.tenant, json);
  if (app.got_subcommand("connections")) return show_connections(daemon, options.tenant, json);
  if (app.got_subcommand("listeners")) return show_listeners(daemon, options.tenant, json);
  if (app.got_subcommand("gsa")) return show_general_services(daemon, json);
  if (app.got_subcommand("events")) return show_events(daemon, options.events, json);
  if (app.got_subcommand("set"))
    return options.dry_run ? plan_allocations(daemon, options.words, json)
                           : set_allocations(daemon, options.words, options.save, json);
  if (app.got_subcommand("level")) return change_level(daemon, options.level, options.words, json);
  if (qp->got_subcommand("show")) return show_queue_pair(daemon, options.qpn, json);
  if (qp->got_subcommand("set")) return set_queue_pair(daemon, options.qpn, options.words, json);
  if (app.got_subcommand("reload")) return reload(daemon, options.dry_run, json);
  if (app.got_subcommand("revisions")) return show_revisions(daemon, json);
  if (app.got_subcommand("saved")) return drop_saved(daemon, options.numbers, json);
  if (app.got_subcommand("diff")) return show_difference(daemon, json);
  if (app.got_subcommand("rollback")) return roll_back(daemon, options.revision, json);
  if (app.got_subcommand("capture")) return capture(daemon, options.capture, json);
  if (app.got_subcommand("fault")) return run_fault(*app.get_subcommand("fault"), daemon, options);
  show_top(daemon, options.top, json);
}

/// True if --json was given, also on a command line that could not be parsed.
bool wants_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](std::string_view word) { return word == "--json"; });
}

/// Prints the JSON document of a failed command.
void print_error(const char* message, const Json& data) {
  Json out = {{"error", message}};
  if (!data.is_null()) out["data"] = data;
  print_json(out);
}

void complain(const CommandError& error, bool json) {
  if (json) print_error(error.what(), error.data());
  std::fprintf(stderr, "softhcactl: %s\n", error.what());
  for (const char* list : {"problems", "reasons", "refusals"})
    if (error.data().is_object() && error.data().contains(list))
      for (const Json& line : error.data()[list])
        if (line.is_string()) std::fprintf(stderr, "  %s\n", line.get<std::string>().c_str());
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"softhcactl: shows and changes a running softhcad"};
  add_common(app, options);
  const CLI::App* tenant = add_show(app, options);
  add_change(app, options);
  add_revisions(app, options);
  add_explain(app, options);
  add_capture(app, options);
  add_faults(app, options);
  add_top(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) == 0) return 0;  // --help and --version are errors, too
    if (wants_json(argc, argv)) print_error(error.what(), {});
    return kUsage;
  }
  try {
    run_command(app, *tenant, options);
  } catch (const CommandError& error) {
    complain(error, options.json);
    return error.code();
  } catch (const Json::exception& error) {
    const std::string why = "unexpected reply from the daemon, which may be of another version: ";
    complain({kUnreachable, why + error.what()}, options.json);
    return kUnreachable;
  }
  return 0;
}

}  // namespace
}  // namespace softhca::cli

int main(int argc, char** argv) { return softhca::cli::run(argc, argv); }
