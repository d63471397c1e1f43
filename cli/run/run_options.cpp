// SPDX-License-Identifier: Apache-2.0

#include "cli/run/run_options.hpp"

#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace softhca::cli {
namespace {

constexpr char kHelp[] =
    R"(Usage: softhca-run [OPTION]... [--] PROGRAM [ARGUMENT]...

Runs PROGRAM, which may be any that uses libibverbs, with the RDMA device of a
softhca tenant.

  -t, --tenant NAME      the tenant; default: $SOFTHCA_TENANT, or by name the
                         first one open to you
  -l, --level NAME       the level to ask for; default: $SOFTHCA_LEVEL. The
                         tenant must have it. Rules for your user, groups or
                         cgroup come first. Without a rule or this option, the
                         daemon chooses the tenant's default level
  -d, --runtime-dir DIR  where softhcad keeps its sockets and device trees;
                         default: $SOFTHCA_RUNTIME_DIR or $RUNTIME_DIRECTORY, or
                         the first of /run/softhca, $XDG_RUNTIME_DIR/softhca and
                         /tmp/softhca-UID where a daemon serves a tenant open to
                         you
  -h, --help             prints this text
  -V, --version          prints the version

A daemon for this program only:

  -D, --daemon           starts softhcad, runs PROGRAM, and removes all that the
                         daemon made. It needs no root. The tenants are a and b
                         unless an option below says otherwise; PROGRAM has the
                         device of the first
      --tenants N        that many tenants, 1 to 26: a, b, c and so on
      --config FILE      the tenants and ports of this configuration of softhcad
      --hosts N          with 2: two daemons with a tenant each, a and b.
                         Packets between them go over UDP sockets of two
                         addresses of the loopback interface
      --loss P           with two hosts: loses packets with this probability, as
                         1% or 0.01
      --duplicate P, --reorder P, --corrupt P    likewise
      --seed N           of these faults; the same seed selects the same
                         packets; default: 1

A virtual machine as a tenant:

  -G, --guest TENANT     runs PROGRAM, a monitor of virtual machines such as QEMU,
                         and serves programs of the machine until PROGRAM ends.
                         In its arguments {region} becomes the path of the
                         memory that the machine must have as virtio-pmem,
                         {bytes} its size, and {channel} the descriptor of a
                         socket for a virtio-serial port
      --channel PLACE    where the machine connects instead: the path of a Unix
                         socket (of hybrid vsock: PATH_4791), "vsock" for port
                         4791 of AF_VSOCK, or "vsock:CID" for one machine only
      --unsealed         the daemon does not seal the memory. Only for tests
                         without a virtual machine

With --daemon, PROGRAM finds in its environment:
  $SOFTHCA_A, $SOFTHCA_B, ...   programs that run a command with the device of
                                the first tenant, the second, and so on; or of
                                host A and host B
  $SOFTHCA_A_ADDR, ...          the addresses of these tenants, for rdma_cm

softhca-run sets SYSFS_PATH, SOFTHCA_SYSFS, SOFTHCA_TENANT and
SOFTHCA_RUNTIME_DIR for PROGRAM. It adds the provider at the front of
IBV_DRIVERS and RDMAV_DRIVERS, and a library at the end of LD_PRELOAD. PROGRAM
may set LD_PRELOAD for another program: this one gets the library, too. If the
path of softhca has a space, softhca-run also adds a folder at the front of
LD_LIBRARY_PATH. With SOFTHCA_DEBUG=1, each RDMA call of PROGRAM that fails
writes the reason to standard error. Exit code: that of PROGRAM, with --daemon
or --guest 128+N if signal N ended it; 125 if softhca-run or the start of its daemon fails,
126 if PROGRAM cannot be run, 127 if it is not found.

Examples: softhca-run --tenant a ibv_devinfo
          softhca-run --guest vm1 -- qemu-system-x86_64 -machine q35 ...
          softhca-run --daemon --hosts 2 --loss 1% -- make check
          softhca-run --daemon sh -c '$SOFTHCA_A ibv_rc_pingpong -g 0 & sleep 1
                             $SOFTHCA_B ibv_rc_pingpong -g 0 127.0.0.1 && wait'
)";

enum LongOnly {
  kTenants = 256,
  kConfig,
  kHosts,
  kLoss,
  kDuplicate,
  kReorder,
  kCorrupt,
  kSeed,
  kChannel,
  kUnsealed
};

constexpr option kLongOptions[] = {{"tenant", required_argument, nullptr, 't'},
                                   {"level", required_argument, nullptr, 'l'},
                                   {"runtime-dir", required_argument, nullptr, 'd'},
                                   {"daemon", no_argument, nullptr, 'D'},
                                   {"tenants", required_argument, nullptr, kTenants},
                                   {"config", required_argument, nullptr, kConfig},
                                   {"hosts", required_argument, nullptr, kHosts},
                                   {"loss", required_argument, nullptr, kLoss},
                                   {"duplicate", required_argument, nullptr, kDuplicate},
                                   {"reorder", required_argument, nullptr, kReorder},
                                   {"corrupt", required_argument, nullptr, kCorrupt},
                                   {"seed", required_argument, nullptr, kSeed},
                                   {"guest", required_argument, nullptr, 'G'},
                                   {"channel", required_argument, nullptr, kChannel},
                                   {"unsealed", no_argument, nullptr, kUnsealed},
                                   {"help", no_argument, nullptr, 'h'},
                                   {"version", no_argument, nullptr, 'V'},
                                   {nullptr, 0, nullptr, 0}};

/// Collects the options. The first mistake stays.
class Parser {
 public:
  void take(int letter, const char* value) {
    switch (letter) {
      case 't':
        options_.tenant = value;
        break;
      case 'l':
        options_.level = value;
        break;
      case 'd':
        options_.runtime_directory = value;
        break;
      case 'D':
        options_.with_daemon = true;
        break;
      case 'G':
      case kChannel:
      case kUnsealed:
        take_of_guest(letter, value);
        break;
      default:
        take_of_daemon(letter, value);
    }
  }

  Found<RunOptions> finish(char** command) {
    const RunOptions& options = options_;
    const PrivateDaemons& daemons = options.daemons;
    const bool two = daemons.hosts == 2;
    if (!needs_daemon_.empty() && !options.with_daemon) reject(needs_daemon_ + " needs --daemon");
    if (options.with_daemon && !options.runtime_directory.empty())
      reject("--runtime-dir names a running daemon; leave it or --daemon out");
    if (!daemons.configuration.empty() && (two || tenants_given_))
      reject("--config brings its own tenants and ports; leave --tenants and --hosts out");
    if (two && tenants_given_) reject("two hosts have one tenant each; leave --tenants out");
    if (!two && !needs_hosts_.empty()) reject(needs_hosts_ + " needs --hosts 2");
    check_guest();
    if (*command == nullptr) reject("no program given; try 'softhca-run --help'");
    if (mistake_) return Failure{*mistake_};
    for (; *command != nullptr; ++command) options_.command.emplace_back(*command);
    return std::move(options_);
  }

 private:
  void take_of_guest(int letter, const char* value) {
    if (letter == kChannel) {
      needs_guest_ = "--channel";
      options_.guest.channel = value;
      if (*value == '\0') reject("--channel: the name of the socket is empty");
    } else if (letter == kUnsealed) {
      needs_guest_ = "--unsealed";
      options_.guest.seal = false;
    } else {
      options_.guest.is_given = true;
      options_.tenant = value;
      if (*value == '\0') reject("--guest: the name of the tenant is empty");
    }
  }

  void check_guest() {
    const bool given = options_.guest.is_given;
    if (!needs_guest_.empty() && !given) reject(needs_guest_ + " needs --guest");
    if (given && options_.with_daemon)
      reject("--guest needs a daemon that runs already; leave --daemon out");
    if (given && !options_.level.empty())
      reject("programs of the machine ask for levels; leave --level out");
  }

  void take_of_daemon(int letter, const char* value) {
    PrivateDaemons& daemons = options_.daemons;
    switch (letter) {
      case kTenants:
        needs_daemon_ = "--tenants";
        tenants_given_ = true;
        daemons.tenants = static_cast<unsigned>(number("--tenants", value, 1, kMostPrivateTenants));
        break;
      case kConfig:
        needs_daemon_ = "--config";
        daemons.configuration = value;
        if (*value == '\0') reject("--config: the name of the file is empty");
        break;
      case kHosts:
        needs_daemon_ = "--hosts";
        daemons.hosts = static_cast<unsigned>(number("--hosts", value, 1, 2));
        break;
      case kLoss:
        return add_fault("--loss", "drop", value);
      case kDuplicate:
        return add_fault("--duplicate", "duplicate", value);
      case kReorder:
        return add_fault("--reorder", "reorder", value);
      case kCorrupt:
        return add_fault("--corrupt", "corrupt", value);
      case kSeed:
        needs_daemon_ = needs_hosts_ = "--seed";
        daemons.seed = number("--seed", value, 0, UINT64_MAX);
    }
  }

  void add_fault(const std::string& name, const char* kind, const char* value) {
    needs_daemon_ = needs_hosts_ = name;
    const Found<double> probability = parse_probability(value);
    if (const auto* failure = std::get_if<Failure>(&probability))
      return reject(name + " " + failure->message);
    const double chance = std::get<double>(probability);
    if (chance > 0) options_.daemons.faults.push_back({kind, chance});
  }

  std::uint64_t number(const std::string& name, const std::string& text, std::uint64_t least,
                       std::uint64_t most) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end || value < least || value > most)
      reject(name + " " + text + ": expected a number from " + std::to_string(least) + " to " +
             std::to_string(most));
    return value;
  }

  void reject(const std::string& message) {
    if (!mistake_) mistake_ = message;
  }

  RunOptions options_;
  std::optional<std::string> mistake_;
  std::string needs_daemon_;  ///< an option that was given and needs --daemon
  std::string needs_hosts_;   ///< an option that was given and needs --hosts 2
  std::string needs_guest_;   ///< an option that was given and needs --guest
  bool tenants_given_ = false;
};

}  // namespace

Found<double> parse_probability(const std::string& text) {
  const bool percent = text.ends_with('%');
  const char* end = text.data() + text.size() - (percent ? 1 : 0);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{} || stop != end || !(value >= 0) || value > (percent ? 100 : 1))
    return Failure{text + ": expected a probability, such as 1% or 0.01"};
  if (!percent && value == 1) return Failure{text + ": write 1% or 100%"};
  return percent ? value / 100 : value;
}

Found<RunOptions> parse_run_options(int argc, char** argv) {
  Parser parser;
  // '+': the first word that is not an option is the program, and all words after it belong to it.
  for (int letter;
       (letter = getopt_long(argc, argv, "+t:l:d:DG:hV", kLongOptions, nullptr)) != -1;) {
    switch (letter) {
      case 'h':
        std::fputs(kHelp, stdout);
        std::exit(0);
      case 'V':
        std::puts(SOFTHCA_VERSION);
        std::exit(0);
      case '?':
        std::fputs("Try 'softhca-run --help'.\n", stderr);
        std::exit(kRunFailed);
      default:
        parser.take(letter, optarg);
    }
  }
  return parser.finish(argv + optind);
}

}  // namespace softhca::cli
