// SPDX-License-Identifier: Apache-2.0

// softhca-guest: serves the RDMA device of a softhca tenant to programs in a virtual machine.
#include <getopt.h>
#include <grp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "guest/agent/agent.hpp"
#include "guest/agent/channel_place.hpp"

namespace {

using namespace softhca;
using namespace softhca::guest;

constexpr char kHelp[] =
    R"(Usage: softhca-guest [OPTION]...

Serves the RDMA device of a softhca tenant to programs in this virtual machine.
The host runs the machine with softhca-run --guest.

  -r, --region PATH      the machine's region, as this machine has it; default:
                         the first /dev/dax*
  -c, --channel PLACE    a character device, a Unix socket, "vsock", or "fd:N",
                         an inherited descriptor; default:
                         /dev/virtio-ports/softhca if it exists, else vsock
  -d, --runtime-dir DIR  where to make sockets and device trees; default:
                         $RUNTIME_DIRECTORY, or /run/softhca
  -g, --group GROUP      only this group may use the device; default: all users
  -h, --help             prints this text
  -V, --version          prints the version
)";

constexpr option kLongOptions[] = {{"region", required_argument, nullptr, 'r'},
                                   {"channel", required_argument, nullptr, 'c'},
                                   {"runtime-dir", required_argument, nullptr, 'd'},
                                   {"group", required_argument, nullptr, 'g'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {"version", no_argument, nullptr, 'V'},
                                   {nullptr, 0, nullptr, 0}};

struct Options {
  std::string region;
  std::string channel;
  std::string runtime_directory;
  std::string group;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "softhca-guest: %s\n", message.c_str());
  std::exit(1);
}

Options parse(int argc, char** argv) {
  const char* const given = std::getenv("RUNTIME_DIRECTORY");
  Options options{
      .region = "", .channel = "", .runtime_directory = given != nullptr ? given : "", .group = ""};
  for (int letter; (letter = getopt_long(argc, argv, "r:c:d:g:hV", kLongOptions, nullptr)) != -1;) {
    switch (letter) {
      case 'r':
        options.region = optarg;
        break;
      case 'c':
        options.channel = optarg;
        break;
      case 'd':
        options.runtime_directory = optarg;
        break;
      case 'g':
        options.group = optarg;
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        std::exit(0);
      case 'V':
        std::puts(SOFTHCA_VERSION);
        std::exit(0);
      default:
        fail("try 'softhca-guest --help'");
    }
  }
  if (optind != argc) fail("unexpected argument " + std::string(argv[optind]));
  if (options.runtime_directory.empty()) options.runtime_directory = "/run/softhca";
  if (options.runtime_directory[0] != '/')
    fail("--runtime-dir " + options.runtime_directory + ": expected an absolute path");
  return options;
}

std::optional<gid_t> group_of(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (const group* found = ::getgrnam(name.c_str()); found != nullptr) return found->gr_gid;
  gid_t number = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data(), last, number);
  if (error != std::errc{} || end != last)
    fail("--group " + name + ": this machine has no such group");
  return number;
}

/// Each connection of a program takes several descriptors; the soft limit is often 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Watches for signals that end the program.
UniqueFd open_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  ::umask(022);
  ::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  auto region = Region::open(options.region);
  if (!region) fail(region.error().message);
  EventLoop loop;
  if (const auto opened = loop.open(); !opened) fail(opened.error().message);
  bool is_ending = false;
  Watch ending;
  ending.ready = [&](std::uint32_t) { is_ending = true; };
  const UniqueFd signals = open_signals();
  loop.arm(signals.get(), ending, EPOLLIN);
  Report report("softhca-guest");
  Agent agent(loop, *region,
              {.runtime_directory = options.runtime_directory,
               .group = group_of(options.group),
               .open_channel = [&] { return open_channel(options.channel); },
               .serving = [] { ::sd_notify(0, "READY=1\nSTATUS=serving"); }},
              report);
  agent.begin();
  while (!is_ending) {
    agent.flush();
    if (const auto stepped = loop.step(-1); !stepped) fail(stepped.error().message);
  }
  ::sd_notify(0, "STOPPING=1");
  return 0;
}
