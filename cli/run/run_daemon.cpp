// SPDX-License-Identifier: Apache-2.0

#include "cli/run/run_daemon.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "cli/ctl_text.hpp"
#include "cli/run/run_environment.hpp"
#include "cli/run/run_processes.hpp"

namespace softhca::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint16_t kRocePort = 4791;
constexpr char kLinkPort[] = "link";  ///< name of the port between two hosts
constexpr std::size_t kLogLines = 40;
constexpr std::size_t kEventLines = 20;
// Reserved for the log, so that a daemon can say why it does not start on a full disk.
constexpr off_t kReservedBytes = 65536;
// Longer than any program is run.
constexpr double kFaultSeconds = 86400;

std::string tenant_text(const std::string& name, const std::string& address, unsigned share) {
  return "[[tenant]]\nname = \"" + name + "\"\naddresses = [\"" + address + "\"]\nshare = \"" +
         std::to_string(share) + "%\"\ntvls = 4\n";
}

/// True if a UDP socket can have port 4791 of the address.
bool roce_port_is_free(const std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(kRocePort);
  const bool free = ::inet_pton(AF_INET, address.c_str(), &place.sin_addr) == 1 &&
                    ::bind(fd, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0;
  ::close(fd);
  return free;
}

/// Opens a socket for sd_notify(3). -1: errno tells why not.
int open_notify_socket(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) return errno = ENAMETOOLONG, -1;
  std::memcpy(address.sun_path, path.c_str(), path.native().size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    return errno = error, -1;
  }
  return fd;
}

/// Opens the log of a daemon, and reserves room for it. -1: errno tells why not.
int open_log(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  // Not all file systems can reserve.
  if (fd < 0 || ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, kReservedBytes) == 0 || errno != ENOSPC)
    return fd;
  ::close(fd);
  errno = ENOSPC;
  return -1;
}

/// True for events of a program that ran well, and of softhca-run itself.
bool is_routine(const std::string& kind) {
  return kind == "session_opened" || kind == "session_closed" || kind == "fault_added";
}

}  // namespace

std::string configuration_of_tenants(unsigned count) {
  std::string text;
  // Half of the adapter is guaranteed to tenants. All share the rest.
  for (unsigned i = 0; i < count; ++i)
    text += tenant_text(std::string(1, static_cast<char>('a' + i)),
                        "198.18.0." + std::to_string(i + 1), 50 / count);
  return text;
}

std::string configuration_of_host(const std::string& tenant, const std::string& address) {
  return std::string("[[port]]\nname = \"") + kLinkPort + "\"\nsocket = \"" + address + "\"\n" +
         tenant_text(tenant, address, 50);
}

std::vector<std::string> free_loopback_addresses() {
  std::random_device random;
  // Others on this machine draw, too; two networks of 65,000 are seldom the same.
  for (int attempt = 0; attempt < 64; ++attempt) {
    const std::string network = "127." + std::to_string(1 + random() % 254) + "." +
                                std::to_string(1 + random() % 254) + ".";
    std::vector<std::string> pair = {network + "1", network + "2"};
    if (roce_port_is_free(pair[0]) && roce_port_is_free(pair[1])) return pair;
  }
  return {};
}

std::string last_lines(const std::string& text, std::size_t count) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back("  " + line + "\n");
  std::string out;
  for (std::size_t i = lines.size() > count ? lines.size() - count : 0; i < lines.size(); ++i)
    out += lines[i];
  return out;
}

PrivateDaemon::PrivateDaemon(std::string name, fs::path folder)
    : name_(std::move(name)), folder_(std::move(folder)) {
  fs::create_directories(folder_ / "run");
  fs::create_directories(folder_ / "as");
}

PrivateDaemon::~PrivateDaemon() {
  if (notify_ >= 0) ::close(notify_);
}

std::string PrivateDaemon::admin_socket() const {
  return (folder_ / "run" / "admin.sock").string();
}

std::string PrivateDaemon::title() const {
  return name_.empty() ? "softhcad" : "softhcad of host " + name_;
}

std::string PrivateDaemon::end() const { return title() + " " + end_text(*end_); }

std::string PrivateDaemon::write_configuration(const std::string& text) const {
  const fs::path file = folder_ / "softhca.toml";
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw std::runtime_error(file.string() + ": " + std::strerror(errno));
  return file;
}

std::string PrivateDaemon::start(const fs::path& program, const std::string& configuration,
                                 const sigset_t& mask) {
  notify_ = open_notify_socket(folder_ / "notify");
  if (notify_ < 0) return (folder_ / "notify").string() + ": " + std::strerror(errno);
  const int log = open_log(folder_ / "log");
  if (log < 0) return (folder_ / "log").string() + ": " + std::strerror(errno);
  const pid_t parent = ::getpid();
  process_ = start_child(mask, [&] {
    // Its own session: signals of the terminal are for the program.
    ::setsid();
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::signal(signal, SIG_DFL);
    // For the case that both processes of softhca-run are killed at once.
    end_with_parent(parent, SIGTERM);
    return run(program, configuration, log);
  });
  ::close(log);
  return process_ < 0 ? std::string("no more processes: ") + std::strerror(errno) : "";
}

/// Becomes the daemon.
int PrivateDaemon::run(const fs::path& program, const std::string& configuration, int log) const {
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  // What a service manager or another softhca-run has set is not for this daemon.
  for (const char* name : {"STATE_DIRECTORY", "JOURNAL_STREAM", "WATCHDOG_USEC", "WATCHDOG_PID",
                           "SOFTHCA_SYSFS", "SYSFS_PATH"})
    ::unsetenv(name);
  set_variable("NOTIFY_SOCKET", (folder_ / "notify").string());
  return become({program.string(), "--config", configuration, "--runtime-dir",
                 (folder_ / "run").string(), "--metrics", "none"});
}

void PrivateDaemon::read_notifications() {
  std::array<char, 4096> bytes;
  for (ssize_t got; (got = ::recv(notify_, bytes.data(), bytes.size(), 0)) >= 0;) {
    std::istringstream in(std::string(bytes.data(), static_cast<std::size_t>(got)));
    for (std::string line; std::getline(in, line);) ready_ = ready_ || line == "READY=1";
  }
}

std::vector<PrivateTenant> PrivateDaemon::tenants() const {
  AdminClient daemon(admin_socket());
  std::vector<PrivateTenant> tenants;
  const Json list = daemon.read("tenants");
  for (const Json& entry : list.at("tenants")) {
    const auto name = entry.at("name").get<std::string>();
    tenants.push_back(
        {name, entry.at("addresses").at(0).at("address"), folder_ / "as" / name, folder_ / "run"});
  }
  return tenants;
}

void PrivateDaemon::inject(const std::vector<LinkFault>& faults, std::uint64_t seed) const {
  AdminClient daemon(admin_socket());
  for (const LinkFault& fault : faults)
    // A packet that was sent damaged is for the receiver to find.
    daemon.call("fault.add", {{"kind", fault.kind},
                              {"port", kLinkPort},
                              {"direction", fault.kind == "corrupt" ? "sent" : "received"},
                              {"probability", fault.probability},
                              {"seed", seed},
                              {"for_s", kFaultSeconds}});
}

std::string PrivateDaemon::events() const {
  AdminClient daemon(admin_socket());
  std::string lines;
  for (Json page, after = 0;; after = page.at("last")) {
    page = daemon.read("events", {{"after", after}});
    for (const Json& event : page.at("events"))
      if (!is_routine(event.value("kind", ""))) lines += event_text(event) + "\n";
    if (page.at("events").empty()) return last_lines(lines, kEventLines);
  }
}

std::string PrivateDaemon::log() const {
  std::ostringstream text;
  text << std::ifstream(folder_ / "log").rdbuf();
  return last_lines(text.str(), kLogLines);
}

void PrivateDaemon::make_links(const std::vector<PrivateTenant>& tenants,
                               const fs::path& self) const {
  for (const PrivateTenant& tenant : tenants) fs::create_symlink(self, tenant.as);
}

std::optional<PrivateTenant> tenant_of_link(const fs::path& path) {
  std::error_code error;
  const fs::path link = fs::absolute(path, error);
  const fs::path run = link.parent_path().parent_path() / "run";
  if (link.parent_path().filename() != "as" || !fs::is_symlink(link, error) ||
      !fs::is_directory(run, error))
    return std::nullopt;
  return PrivateTenant{link.filename(), "", link, run};
}

}  // namespace softhca::cli
