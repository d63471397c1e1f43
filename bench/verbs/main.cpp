// SPDX-License-Identifier: Apache-2.0

// softhca-bench: message rate, bandwidth and latency of any verbs device, beside those of memcpy on
// the same core in the same run.
//
//   softhca-bench                    both sides on this machine, by fork
//   softhca-bench --server           one side; the other is
//   softhca-bench --client HOST
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "bench/verbs/sides.hpp"

namespace softhca::bench {
namespace {

struct Options {
  std::string device;
  int gid_index = 0;
  std::uint16_t port = 18600;
  bool server = false;
  std::string client;
  Plan plan;
};

/// Serves until the client has ended. Returns the exit code.
int serve_and_exit(const Options& options) {
  const Device device(options.device, options.gid_index);
  Peer peer = Peer::accept_one(options.port);
  serve(device, peer);
  return 0;
}

int connect_and_run(const Options& options, const std::string& host) {
  const Device device(options.device, options.gid_index);
  Peer peer = Peer::connect_to(host, options.port);
  run_client(device, peer, options.plan);
  return 0;
}

int run_both(const Options& options) {
  const pid_t server = fork();
  if (server < 0) die("fork");
  if (server == 0) std::exit(serve_and_exit(options));
  const int code = connect_and_run(options, "127.0.0.1");
  int status = 0;
  waitpid(server, &status, 0);
  return code ? code : !WIFEXITED(status) || WEXITSTATUS(status) != 0;
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
                 "rate, latency, completion (from post to completion, one at a time) or all")
      ->check(CLI::IsMember({"rate", "latency", "completion", "all"}));
  app.add_option("--seconds", plan.seconds, "of each rate")->capture_default_str();
  app.add_option("--depth", plan.depth, "messages in flight per queue pair")
      ->capture_default_str()
      ->check(CLI::Range(1u, 4096u));
  app.add_option("--iterations", plan.iterations, "messages of each latency");
  app.add_option("--mtu", plan.mtu, "path MTU in bytes (default: the largest)");
  CLI11_PARSE(app, argc, argv);

  const std::map<std::string, Operation> kOperations = {
      {"send", Operation::kSend}, {"write", Operation::kWrite}, {"read", Operation::kRead}};
  for (const std::string& name : operations) plan.operations.push_back(kOperations.at(name));
  plan.rate = measure == "rate" || measure == "all";
  plan.latency = measure == "latency" || measure == "all";
  plan.completion = measure == "completion";

  if (options.server) return serve_and_exit(options);
  if (!options.client.empty()) return connect_and_run(options, options.client);
  return run_both(options);
}

}  // namespace
}  // namespace softhca::bench

int main(int argc, char** argv) { return softhca::bench::run(argc, argv); }
