// SPDX-License-Identifier: Apache-2.0

// softhca-bench: message rate, bandwidth and latency of any verbs device, beside those of memcpy on
// the same core in the same run.
//
//   softhca-bench                    both sides on this machine
//   softhca-bench --server           one side; the other is
//   softhca-bench --client HOST
//
// `softhcactl measure` runs it with a daemon of its own. --measure memory says what objects cost
// the daemon.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "bench/verbs/both_sides.hpp"
#include "bench/verbs/memory.hpp"
#include "bench/verbs/sides.hpp"

namespace softhca::bench {
namespace {

struct Options {
  std::string device;
  int gid_index = 0;
  std::uint16_t port = 18600;
  bool server = false;
  std::string client;
  BothSides both;
  SideSockets sockets;
  Plan plan;
};

int serve_peer(const Options& options, Peer peer) {
  const Device device(options.device, options.gid_index);
  serve(device, peer);
  return 0;
}

int run_plan(const Options& options, Peer peer) {
  const Device device(options.device, options.gid_index);
  run_client(device, peer, options.plan);
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  Plan& plan = options.plan;
  std::vector<std::string> operations = {"send", "write", "read"};
  std::string measure = "all";
  plan.sizes = {8, 64, 512, 4096, 32768, 262144, 1048576, 8388608};
  plan.queue_pairs = {1, 8, 64};

  CLI::App app("Message rate, bandwidth and latency of a verbs device, next to memcpy");
  app.add_option("-d,--device", options.device, "name of the device (default: the first)");
  app.add_option("-g,--gid", options.gid_index, "index of the GID")->capture_default_str();
  app.add_option("-p,--port", options.port, "TCP port")->capture_default_str();
  auto* server = app.add_flag("--server", options.server, "serve one client");
  app.add_option("--client", options.client, "run against the server on this host")
      ->excludes(server);
  app.add_option("--op", operations, "send, write, read")
      ->delimiter(',')
      ->check(CLI::IsMember({"send", "write", "read"}));
  app.add_option("--size", plan.sizes, "bytes of a message, as 8,64K,1M")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30));
  app.add_option("--qps", plan.queue_pairs, "numbers of queue pairs")
      ->delimiter(',')
      ->check(CLI::Range(1u, 1024u));
  app.add_option("--measure", measure,
                 "rate, latency, completion (from post to completion, one at a time), all, "
                 "echo (of sends, --depth at once, between programs that sleep until a message "
                 "arrives, beside TCP; with --server and --client), "
                 "memory (of softhcad, for objects of this tenant) or daemon (its memory)")
      ->check(CLI::IsMember({"rate", "latency", "completion", "all", "echo", "memory", "daemon"}));
  app.add_option("--seconds", plan.seconds, "of each rate")->capture_default_str();
  app.add_option("--depth", plan.depth, "messages in flight per queue pair")
      ->capture_default_str()
      ->check(CLI::Range(1u, 4096u));
  app.add_option("--iterations", plan.iterations, "messages of each latency");
  app.add_option("--mtu", plan.mtu, "path MTU in bytes (default: the largest)");
  app.add_option("--turns", plan.turns, "how often to measure all")->check(CLI::Range(1u, 1000u));
  app.add_flag("--json", plan.json, "print an object of JSON a line");
  app.add_option("--server-as", options.both.server_as,
                 "run the servers by this program, as $SOFTHCA_A of softhca-run --daemon");
  app.add_option("--client-as", options.both.clients_as,
                 "run a client by this program; once for each client. They begin together");
  // What run_both_sides() gives to the processes that it starts.
  app.add_option("--side-fd", options.sockets.peer)->group("");
  app.add_option("--begin-fd", options.sockets.begin)->group("");
  CLI11_PARSE(app, argc, argv);

  const std::map<std::string, Operation> kOperations = {
      {"send", Operation::kSend}, {"write", Operation::kWrite}, {"read", Operation::kRead}};
  for (const std::string& name : operations) plan.operations.push_back(kOperations.at(name));
  plan.rate = measure == "rate" || measure == "all";
  plan.latency = measure == "latency" || measure == "all";
  plan.completion = measure == "completion";
  plan.echo = measure == "echo";

  if (measure == "daemon") return measure_daemon();
  if (measure == "memory") return measure_memory(options.device, options.gid_index);
  if (options.sockets.begin >= 0)
    plan.await_others = [begin = options.sockets.begin] { await_others(begin); };
  if (const int peer = options.sockets.peer; peer >= 0)
    return options.server ? serve_peer(options, Peer(peer)) : run_plan(options, Peer(peer));
  if (options.server) return serve_peer(options, Peer::accept_one(options.port));
  if (!options.client.empty())
    return run_plan(options, Peer::connect_to(options.client, options.port));
  if (plan.echo) die("--measure echo needs --server and --client");
  return run_both_sides(options.both, {argv + 1, argv + argc});
}

}  // namespace
}  // namespace softhca::bench

int main(int argc, char** argv) { return softhca::bench::run(argc, argv); }
