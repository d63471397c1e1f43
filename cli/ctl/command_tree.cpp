// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl/command_tree.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cli/ctl/command_help.hpp"
#include "cli/ctl/command_words.hpp"
#include "cli/measure/proposal.hpp"

namespace softhca::cli {
namespace {

using Command = std::function<void(AdminClient&, Output&)>;

constexpr double kDefaultWatch = 2;  // seconds
constexpr std::uint64_t kMostCount = 1'000'000'000'000;

CLI::App* add(CLI::App& parent, const char* name, const char* text) {
  CLI::App* const app = parent.add_subcommand(name, text);
  app->group(parent.get_parent() == nullptr ? "" : "Commands");
  return app;
}

/// Adds a command that asks the daemon. `check` looks for errors of the command line before that.
CLI::App* add(CLI::App& parent, const char* name, const char* text, Options& options,
              Command command, std::function<void()> check = nullptr) {
  CLI::App* const app = add(parent, name, text);
  app->callback([&options, command, check] {
    if (check) check();
    options.command = command;
  });
  return app;
}

/// Adds a command that only has further commands.
CLI::App* add_family(CLI::App& parent, const char* name, const char* text) {
  CLI::App* const app = add(parent, name, text);
  app->require_subcommand(1);
  return app;
}

/// Lets an option take these words only.
CLI::Option* choose(CLI::Option* option, const std::vector<std::string>& choices) {
  std::string names;
  for (const std::string& choice : choices) names += (names.empty() ? "" : "|") + choice;
  return option->type_name(names)->transform(CLI::Validator(
      [choices](std::string& word) {
        for (const std::string& choice : choices)
          if (CLI::detail::to_lower(choice) == CLI::detail::to_lower(word)) {
            word = choice;
            return std::string();
          }
        return unknown_text("value", word, choices);
      },
      ""));
}

std::string parse_watch(const std::string& text, std::optional<double>& out) {
  double seconds = kDefaultWatch;
  if (!text.empty() && text != "true") {  // "true": the option has no value
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size() || seconds < 0.05 ||
        seconds > 3600)
      return "--watch: " + text + " is not a number of seconds from 0.05 to 3600";
  }
  out = seconds;
  return {};
}

/// Lets a command that shows a state repeat it.
CLI::App* watchable(CLI::App* app, Options& options) {
  app->add_option_function<std::string>(
         "--watch",
         [&options](const std::string& text) {
           const std::string problem = parse_watch(text, options.print.watch);
           if (!problem.empty()) throw CLI::ValidationError(problem);
         },
         "show it again and again, with this many seconds between; default: 2")
      ->type_name("SECONDS")
      ->expected(0, 1);
  return app;
}

void add_tenant_option(CLI::App* app, std::string& tenant) {
  app->add_option("-t,--tenant", tenant, "only those of this tenant")->type_name("TENANT");
}

CLI::App* add_list(CLI::App& app, const char* name, const char* text, Options& options,
                   void (*show)(AdminClient&, const Filter&, Output&)) {
  CLI::App* const list = watchable(add(app, name, text, options,
                                       [&options, show](AdminClient& daemon, Output& out) {
                                         show(daemon, options.filter, out);
                                       }),
                                   options);
  add_tenant_option(list, options.filter.tenant);
  list->add_option("--pid", options.filter.pid, "only those of this process")->type_name("PID");
  return list;
}

/// Returns what is wrong with an address, which may have a port; empty: nothing.
std::string check_peer(const std::string& text) {
  std::string host = text;
  if (const std::size_t end = text.find("]:"); text.starts_with('[') && end != std::string::npos)
    host = text.substr(1, end - 1);
  else if (std::ranges::count(text, ':') == 1)
    host.resize(text.find(':'));
  in6_addr parsed;
  for (const int family : {AF_INET, AF_INET6})
    if (::inet_pton(family, host.c_str(), &parsed) == 1) return {};
  return "\"" + text + "\" is not an address, such as 198.18.0.1";
}

void add_peer(CLI::App* list, Options& options) {
  list->add_option("--peer", options.filter.peer, "only those with this peer")
      ->type_name("ADDRESS")
      ->check(check_peer);
}

CLI::Option* add_states(CLI::App* list, Options& options) {
  return list
      ->add_option("--state", options.filter.states,
                   "only those in this state; several with commas between them")
      ->type_name("STATE")
      ->delimiter(',');
}

void add_lists(CLI::App& app, Options& options) {
  CLI::App* const qps = add_list(app, "qps", "queue pairs", options, show_queue_pairs);
  choose(add_states(qps, options), {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"});
  add_peer(qps, options);
  add_list(app, "srqs", "shared receive queues", options, show_shared_receive_queues);
  CLI::App* const connections =
      add_list(app, "connections", "connections by rdma_cm", options, show_connections);
  add_states(connections, options);
  add_peer(connections, options);
  add_list(app, "listeners", "listeners of rdma_cm", options, show_listeners);
}

void add_queue_pair(CLI::App& app, Options& options) {
  CLI::App* const family = add_family(app, "qp", "one queue pair: show, set");
  CLI::App* const show = watchable(
      add(*family, "show", "state, peer, attributes and latest events of a queue pair", options,
          [&options](AdminClient& daemon, Output& out) {
            show_queue_pair(daemon, options.qpn, out);
          }),
      options);
  CLI::App* const set = add(
      *family, "set", "rates of a queue pair; its limit and importance on its shared receive queue",
      options,
      [&options](AdminClient& daemon, Output& out) {
        set_queue_pair(daemon, options.qpn, options.words, out);
      },
      [&options] { terms_of(options.qpn, options.words); });
  for (CLI::App* const command : {show, set})
    command->add_option("QPN", options.qpn, "its number")->required()->type_name("QPN");
  set->add_option(
         "CHANGE", options.words,
         "KEY=VALUE... Rate of what it may send (0: no limit): bytes_per_second=N, burst_bytes=N, "
         "messages_per_second=N, burst_messages=N. Guaranteed rate: min_bytes_per_second=N. Rates "
         "of what its peer may send to it or read from it: inbound_rate.bytes_per_second=N, "
         "served_rate.bytes_per_second=N and so on. Shared receive queue: srq_limit=N (buffers; "
         "0: no limit), importance=N (0 to 7). The value `policy` restores the default")
      ->required()
      ->type_name("QP-KEY");
}

void add_port(CLI::App& app, Options& options) {
  CLI::App* const family = add_family(app, "port", "one port: up, down");
  for (const bool up : {true, false})
    add(*family, up ? "up" : "down",
        up ? "take a port into service again"
           : "take a port out of service, as a link without a carrier; also for later adapters",
        options,
        [&options, up](AdminClient& daemon, Output& out) {
          set_port(daemon, options.port, up, out);
        })
        ->add_option("PORT", options.port, "its name")
        ->required()
        ->type_name("PORT");
}

void add_tenant_create(CLI::App& family, Options& options) {
  TenantOptions& made = options.made;
  CLI::App* const create = add(family, "create", "make a tenant from a template", options,
                               [&options](AdminClient& daemon, Output& out) {
                                 create_tenant(daemon, options.tenant, options.made, out);
                               });
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
  create->add_option("--mode", made.mode, "mode of its socket, in octal")
      ->type_name("MODE")
      ->check([](const std::string& text) {
        mode_of(text);
        return std::string();
      });
  create->add_option("--share", made.share, "share of the adapter")->type_name("PERCENT%");
  choose(create->add_option("--class", made.workload, "class of its work"),
         {"standard", "latency", "bulk"});
  create
      ->add_option("--guest", made.guest_memory, "it is a virtual machine; memory of its programs")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false));
  create->add_flag("--save", made.save, "keep the tenant after restarts");
}

void add_tenant(CLI::App& app, Options& options) {
  CLI::App* const family = add_family(app, "tenant", "one tenant: show, create, remove");
  CLI::App* const show =
      watchable(add(*family, "show", "allocations, TVLs, limits and processes of a tenant", options,
                    [&options](AdminClient& daemon, Output& out) {
                      show_tenant(daemon, options.tenant, out);
                    }),
                options);
  add_tenant_create(*family, options);
  CLI::App* const remove = add(
      *family, "remove", "remove a tenant that `create` made; its programs continue until they end",
      options, [&options](AdminClient& daemon, Output& out) {
        remove_tenant(daemon, options.tenant, options.end, out);
      });
  remove->add_flag("--end", options.end, "close the connections of its programs");
  for (CLI::App* const command : {show, remove})
    command->add_option("NAME", options.tenant, "the tenant")->required()->type_name("TENANT");
}

void add_events(CLI::App& app, Options& options) {
  CLI::App* const events = add(
      app, "events", "recent events", options,
      [&options](AdminClient& daemon, Output& out) { show_events(daemon, options.events, out); });
  events->add_flag("-f,--follow", options.events.follow, "keep printing new events");
  add_tenant_option(events, options.events.tenant);
  events->add_option("--pid", options.events.pid, "only those of this process")->type_name("PID");
  events->add_option("--after", options.events.after, "only events after this number")
      ->type_name("N");
}

void add_top(CLI::App& app, Options& options) {
  CLI::App* const top = add(app, "top", "activity of the tenants per second, in samples", options,
                            [&options](AdminClient& daemon, Output& out) {
                              if (options.once) options.top.count = 1;
                              show_top(daemon, options.top, out);
                            });
  top->add_option("-i,--interval", options.top.interval, "seconds between two samples; default: 1")
      ->check(CLI::Range(0.05, 3600.0))
      ->type_name("SECONDS");
  CLI::Option* const count =
      top->add_option("-n,--count", options.top.count, "end after this many samples")
          ->check(CLI::Range(std::uint64_t{1}, kMostCount))
          ->type_name("N");
  top->add_flag("--once", options.once, "the same as --count 1")->excludes(count);
}

void add_explain(CLI::App& app, Options& options) {
  CLI::App* const command = add(
      app, "explain",
      "what the send commands of a tenant or level wait for, and which setting would help", options,
      [&options](AdminClient& daemon, Output& out) { explain(daemon, options.explain, out); });
  command->add_option("TENANT", options.explain.who, "TENANT or TENANT/LEVEL")
      ->required()
      ->type_name("TENANT");
  CLI::Option* const interval = command
                                    ->add_option("-i,--interval", options.explain.interval,
                                                 "seconds to observe it; default: 2")
                                    ->check(CLI::Range(0.05, 3600.0))
                                    ->type_name("SECONDS");
  command->add_flag("--total", options.explain.total, "since the daemon started")
      ->excludes(interval);
}

void add_shown(CLI::App& app, Options& options) {
  const auto add_simple = [&](const char* name, const char* text,
                              void (*show)(AdminClient&, Output&)) {
    watchable(add(app, name, text, options, show), options);
  };
  add_simple("status", "the daemon, its ports and its pools", show_status);
  add_simple("tenants", "one line for each tenant", show_tenants);
  add_tenant(app, options);
  add_lists(app, options);
  add_queue_pair(app, options);
  add_simple("gsa", "the general services agent: its clients and their datagrams",
             show_general_services);
  add_events(app, options);
  add_top(app, options);
  add_explain(app, options);
}

void add_levels(CLI::App& app, Options& options) {
  CLI::App* const family =
      add_family(app, "level", "levels that a tenant makes itself (with --as): make, change...");
  const auto add_level = [&](const char* what, const char* text, const char* words) {
    const auto check = [&options, what] {
      if (options.daemon.as.empty() && options.daemon.socket.empty())
        throw CommandError(kUsage,
                           "only a tenant changes its levels: softhcactl --as TENANT level ...");
      level_of(what, options.words);
    };
    add(
        *family, what, text, options,
        [&options, what](AdminClient& daemon, Output& out) {
          change_level(daemon, what, options.words, out);
        },
        check)
        ->add_option("NAME", options.words, words)
        ->required()
        ->type_name("LEVEL-KEY");
  };
  add_level("make", "make a level",
            "its name, and KEY=VALUE...: keys of `set`, and default, dscp, cgroups, "
            "service_levels, traffic_classes");
  add_level("change", "change a level", "its name, and KEY=VALUE...");
  add_level("rename", "give a level another name", "its name, and the new one");
  add_level("remove", "remove a level; its programs continue until they end", "its name");
}

void add_saved(CLI::App& app, Options& options) {
  CLI::App* const saved =
      add_family(app, "saved", "changes that `set --save` saved (`diff` lists them): drop");
  CLI::App* const drop = add(
      *saved, "drop", "drop saved requests; takes effect at the next reload", options,
      [&options](AdminClient& daemon, Output& out) { drop_saved(daemon, options.numbers, out); },
      [&options] {
        if (options.numbers.empty() && !options.all)
          throw CommandError(kUsage,
                             "give the numbers of saved requests, as `diff` shows them, or --all");
      });
  CLI::Option* const numbers = drop->add_option("NUMBER", options.numbers, "as `diff` shows them");
  drop->add_flag("--all", options.all,
                 "all of them, also if the file of saved requests cannot be read")
      ->excludes(numbers);
}

void add_changing(CLI::App& app, Options& options) {
  CLI::App* const set = add(
      app, "set", "change allocations: all that are given, or none", options,
      [&options](AdminClient& daemon, Output& out) {
        options.dry_run ? plan_allocations(daemon, options.words, out)
                        : set_allocations(daemon, options.words, options.save, out);
      },
      [&options] { changes_of(options.words); });
  set->add_option("CHANGE", options.words, "TENANT[/LEVEL][.tvlN] KEY=VALUE..., once or more")
      ->required()
      ->type_name("SET-KEY");
  set->add_flag("--dry-run", options.dry_run,
                "only print what would change, and the guarantees and ceilings of each tenant then")
      ->excludes(
          set->add_flag("--save", options.save, "keep the change after reloads and restarts"));
  add_levels(app, options);
  add_port(app, options);
  add(app, "reload", "put the configuration file into force", options,
      [&options](AdminClient& daemon, Output& out) { reload(daemon, options.dry_run, out); })
      ->add_flag("--dry-run", options.dry_run, "only print what would change");
  add(app, "upgrade", "replace the daemon by the installed version; connections go on", options,
      [&options](AdminClient& daemon, Output& out) { upgrade(daemon, options.library, out); })
      ->add_option("--library", options.library, "the library of the version, instead")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  watchable(add(app, "revisions", "the changes made so far: time, cause, process, keys", options,
                show_revisions),
            options);
  watchable(add(app, "diff",
                "differences between the file and the configuration in force; saved requests",
                options, show_difference),
            options);
  add_saved(app, options);
  add(app, "rollback", "put the allocations of an earlier revision into force", options,
      [&options](AdminClient& daemon, Output& out) { roll_back(daemon, options.revision, out); })
      ->add_option("REVISION", options.revision, "its number")
      ->required();
}

void add_capture(CLI::App& app, Options& options) {
  CaptureArguments& of = options.capture;
  CLI::App* const command =
      add(app, "capture", "packets of tenants, as pcapng", options,
          [&options](AdminClient& daemon, Output& out) { capture(daemon, options.capture, out); });
  add_tenant_option(command, of.tenant);
  command
      ->add_option("-p,--port", of.port,
                   "only packets of this port; default: all, also messages inside the daemon")
      ->type_name("PORT");
  command->add_option("-w,--write", of.file, "the file; default: standard output")
      ->type_name("FILE");
  command->add_option("-n,--count", of.count, "end after this many packets")
      ->check(CLI::Range(std::uint64_t{1}, kMostCount))
      ->type_name("N");
  command->add_option("--seconds", of.seconds, "end after this many seconds")
      ->check(CLI::Range(0.05, 1e9))
      ->type_name("SECONDS");
  command->add_option("-s,--snaplen", of.snaplen, "bytes to keep of each packet; default: all")
      ->check(CLI::Range(1, 262144))
      ->type_name("N");
  command
      ->add_option("--buffer", of.buffer,
                   "size of the packet buffer in MiB, a power of two; default: 16")
      ->check(CLI::Range(1, 64))
      ->type_name("MIB");
}

void add_fault_adding(CLI::App& family, Options& options) {
  FaultOptions& of = options.fault;
  CLI::App* const command =
      add(family, "add", "inject a fault", options,
          [&options](AdminClient& daemon, Output& out) { add_fault(daemon, options.fault, out); });
  choose(
      command->add_option("KIND", of.kind, "drop, delay, duplicate, reorder, corrupt, mark or rnr"),
      {"drop", "delay", "duplicate", "reorder", "corrupt", "mark", "rnr"})
      ->required();
  command->add_option("-t,--tenant", of.tenant, "affect what this tenant sends and receives")
      ->type_name("TENANT");
  command->add_option("-p,--port", of.port, "affect what passes this port")->type_name("PORT");
  command->add_option("-q,--qp", of.qpn, "affect what this queue pair sends and receives")
      ->type_name("QPN");
  choose(command->add_option("-d,--direction", of.direction, "default: both"),
         {"both", "sent", "received"});
  CLI::Option* const every =
      command->add_option("--every", of.every, "affect each n-th packet or message")
          ->type_name("N");
  command
      ->add_option("--probability", of.probability,
                   "affect each packet or message with this probability, 0 to 1")
      ->type_name("P")
      ->excludes(every);
  command
      ->add_option("--seed", of.seed,
                   "seed of the random draws; equal seeds select equal packets; default: 1")
      ->type_name("N");
  command->add_option("-n,--count", of.count, "inject the fault at most this many times")
      ->type_name("N");
  command->add_option("--for", of.seconds, "seconds until it ends; default: 300")
      ->type_name("SECONDS");
  command
      ->add_option("--delay", of.delay,
                   "for delay: seconds; for reorder: the most seconds, default 0.01")
      ->type_name("SECONDS");
  command
      ->add_option("--jitter", of.jitter,
                   "for delay: add a random delay of at most this many seconds")
      ->type_name("SECONDS");
  command
      ->add_option("--by", of.by,
                   "for reorder: send a packet after this many later ones; default: 3")
      ->type_name("N");
}

void add_faults(CLI::App& app, Options& options) {
  CLI::App* const family =
      add_family(app, "fault", "inject faults, to test programs: add, list, remove");
  add_fault_adding(*family, options);
  watchable(
      add(*family, "list", "faults in force, with the number of packets they matched and affected",
          options, show_faults),
      options);
  CLI::App* const remove = add(*family, "remove", "end faults before their time", options,
                               [&options](AdminClient& daemon, Output& out) {
                                 remove_faults(daemon, options.numbers, options.all, out);
                               });
  CLI::Option* const numbers =
      remove->add_option("NUMBER", options.numbers, "as `list` shows them");
  remove->add_flag("--all", options.all, "all of them")->excludes(numbers);
}

void add_measure(CLI::App& app, Options& options) {
  MeasureOptions& of = options.measure;
  CLI::App* const command =
      add(app, "measure", "what this host can do, and what may be promised to its tenants");
  command->add_option("--seconds", of.seconds, "how long it takes, about; default: 60")
      ->check(CLI::Range(1.0, 3600.0))
      ->type_name("SECONDS");
  command
      ->add_option("--tenants", of.tenants,
                   "tenants with equal shares; default: as many as cores, at least 4")
      ->check(CLI::Range(1U, kMostMeasuredTenants))
      ->type_name("N");
  command
      ->add_option("--memory", of.memory,
                   "memory of the host to propose for, as 64G; default: that of this host")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1} << 30, std::uint64_t{1} << 50))
      ->type_name("SIZE");
  command
      ->add_option("--from", of.from,
                   "a file with the document of an earlier run: take its figures, and propose only")
      ->type_name("FILE");
  command->callback([&options] {
    options.without_daemon = [&options] {
      Output out(
          style_of(format_of(options.print.format), options.print.color, options.print.bytes));
      measure(options.measure, out);
    };
  });
}

void add_help(CLI::App& app, Options& options) {
  CLI::App* const help = add(app, "help", "explain a command and its options");
  help->add_option("COMMAND", options.words, "its words; default: list all commands")
      ->type_name("COMMAND");
  help->callback([&app, &options] {
    options.without_daemon = [&app, &options] { print_help(app, options.words); };
  });
  CLI::App* const completion = add(app, "completion", "print a completion script for a shell");
  choose(completion->add_option("SHELL", options.words, "bash, zsh or fish")->expected(1),
         {"bash", "zsh", "fish"})
      ->required();
  completion->callback([&options] {
    options.without_daemon = [&options] {
      std::fputs(completion_script(options.words.front()), stdout);
    };
  });
}

void add_common_options(CLI::App& app, Options& options) {
  choose(app.add_option("-o,--output", options.print.format,
                        "how to print; wide: with all columns; default: table"),
         {"table", "wide", "json", "yaml"});
  app.add_flag("--bytes", options.print.bytes, "exact numbers, without units such as GiB");
  choose(app.add_option("--color", options.print.color,
                        "default: auto, colours on a terminal unless NO_COLOR is set"),
         {"auto", "always", "never"});
  app.add_option(
         "--as", options.daemon.as,
         "act as this tenant, through its own socket: `set` for its levels and srq, `level`, "
         "`tenant show`, `explain`, `qps`, `srqs`, `events`, `qp set`")
      ->type_name("TENANT");
  app.add_option("--socket", options.daemon.socket, "the daemon's admin socket")->type_name("PATH");
  app.add_option("--runtime-dir", options.daemon.runtime_dir,
                 "where the daemon keeps its sockets, as for softhca-run")
      ->type_name("DIR");
}

}  // namespace

void add_commands(CLI::App& app, Options& options) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this text");
  app.fallthrough();
  app.require_subcommand(1);
  add_common_options(app, options);
  const auto add_group = [&](const char* title, void (*add_them)(CLI::App&, Options&)) {
    add_them(app, options);
    for (CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
      if (command->get_group().empty()) command->group(title);
  };
  add_group("Show", add_shown);
  add_group("Change", add_changing);
  add_group("Test and record", [](CLI::App& to, Options& of) {
    add_faults(to, of);
    add_capture(to, of);
    add_measure(to, of);
  });
  add_group("Help", add_help);
}

}  // namespace softhca::cli
