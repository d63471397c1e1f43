// SPDX-License-Identifier: Apache-2.0

#include "cli/run/run_manager.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/run/run_environment.hpp"
#include "cli/run/run_processes.hpp"

namespace softhca::cli {
namespace {

using namespace std::chrono_literals;

// A daemon starts in less than a second, unless the machine is overloaded.
constexpr auto kReadyWithin = 60s;
// Bytes of the folder's path: the longest path of a socket in it must fit into 107.
constexpr std::size_t kLongestFolder = 50;
// More than a daemon of two tenants has open at once, and than this process has: sockets of the
// daemons, and while it removes the folder one for each level of it.
constexpr std::size_t kDescriptors = 32;

/// Prints a message of one line or more.
void say(const std::string& message) {
  std::fprintf(stderr, "softhca-run: %s%s", message.c_str(), message.ends_with('\n') ? "" : "\n");
}

std::string names_of(const std::vector<PrivateTenant>& tenants) {
  std::string text;
  for (const PrivateTenant& tenant : tenants) text += (text.empty() ? "" : ", ") + tenant.name;
  return text;
}

/// Throws if there are too few descriptors to start a daemon and to clean up. `any`: an open one.
void check_descriptors(int any) {
  std::vector<int> opened;
  while (opened.size() < kDescriptors) {
    const int fd = ::fcntl(any, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) break;
    opened.push_back(fd);
  }
  for (const int fd : opened) ::close(fd);
  if (opened.size() < kDescriptors)
    throw std::runtime_error("--daemon needs " + std::to_string(kDescriptors) +
                             " free file descriptors and has " + std::to_string(opened.size()) +
                             "; raise the limit (ulimit -n)");
}

/// "A" for the first, "B" for the second, and so on.
std::string letter(std::size_t index) { return std::string(1, static_cast<char>('A' + index)); }

}  // namespace

Manager::Manager(ManagerPlan plan) : plan_(std::move(plan)) {}

int Manager::run() {
  // A group of its own, since a signal to that of softhca-run may end all in it.
  ::setpgid(0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  children_ = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  int code = kRunFailed;
  try {
    check_descriptors(plan_.relay);
    make_folder();
    code = serve();
  } catch (const std::exception& error) {
    say(error.what());
  }
  end_children({});
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  return code;
}

/// Makes the folder, which only this user may enter. softhca-run may be killed at any time, so the
/// process that removes the folder also makes it.
void Manager::make_folder() {
  const char* given = std::getenv("TMPDIR");
  std::string name =
      given != nullptr && *given != '\0' ? std::filesystem::absolute(given).string() : "/tmp";
  // Programs use $SOFTHCA_A without quotes.
  const bool has_space = name.find_first_of(" \t\n") != std::string::npos;
  if (name.size() > kLongestFolder || has_space) name = "/tmp";
  name += "/softhca-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    throw std::runtime_error(std::string("no folder in $TMPDIR: ") + std::strerror(errno));
  folder_ = name;
  ::send(plan_.relay, name.data(), name.size(), MSG_NOSIGNAL);  // softhca-run may be gone
}

int Manager::serve() {
  const std::string problem = start_daemons();
  if (interrupted_ != 0) return 128 + interrupted_;
  if (gone_) return kRunFailed;
  if (!problem.empty()) {
    say(problem);
    return kRunFailed;
  }
  const PrivateTenant* tenant = program_tenant();
  if (tenants_.empty()) {
    say(plan_.options.daemons.configuration +
        " has no [[tenant]], so the program has no device; add one");
    return kRunFailed;
  }
  if (tenant == nullptr) {
    say("no tenant " + plan_.options.tenant + "; the daemon has " + names_of(tenants_));
    return kRunFailed;
  }
  start_program(*tenant);
  while (!program_end_ && !gone_) step(1h);
  std::set<pid_t> daemons;
  for (const auto& daemon : daemons_) daemons.insert(daemon->process());
  end_children(daemons);  // what the program has left running, and itself if softhca-run is gone
  if (gone_) return 0;
  report();
  return exit_code_of(*program_end_);
}

/// Returns what went wrong; empty: the tenants can be used.
std::string Manager::start_daemons() {
  std::string problem = start_hosts();
  if (problem.empty()) problem = await_ready();
  if (!problem.empty() || stopped()) return problem;
  find_tenants();
  const PrivateDaemons& wanted = plan_.options.daemons;
  for (std::size_t i = 0; i < daemons_.size(); ++i)
    if (!wanted.faults.empty()) daemons_[i]->inject(wanted.faults, wanted.seed);
  return "";
}

std::string Manager::start_hosts() {
  const PrivateDaemons& wanted = plan_.options.daemons;
  std::vector<std::string> configurations;
  if (wanted.hosts == 2) {
    const std::vector<std::string> addresses = free_loopback_addresses();
    if (addresses.empty())
      return "UDP port 4791 of no address of the loopback interface can be used";
    configurations = {configuration_of_host("a", addresses[0]),
                      configuration_of_host("b", addresses[1])};
  } else {
    configurations = {configuration_of_tenants(wanted.tenants)};
  }
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    const std::string name = wanted.hosts == 2 ? letter(i) : "";
    daemons_.push_back(std::make_unique<PrivateDaemon>(name, folder_ / ("host" + letter(i))));
    PrivateDaemon& daemon = *daemons_.back();
    const std::string file = wanted.configuration.empty()
                                 ? daemon.write_configuration(configurations[i])
                                 : wanted.configuration;
    const std::string problem = daemon.start(plan_.softhcad, file, plan_.mask);
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string Manager::await_ready() {
  const auto all_ready = [&] {
    for (const auto& daemon : daemons_)
      if (!daemon->ready()) return false;
    return true;
  };
  step_until([&] { return all_ready() || !all_run() || stopped(); }, kReadyWithin);
  for (const auto& daemon : daemons_) {
    if (!daemon->running())
      return daemon->end() + " before it was ready; it printed:\n" + daemon->log();
    if (!daemon->ready() && !stopped())
      return daemon->title() + " is not ready after 60 s; it printed:\n" + daemon->log();
  }
  return "";
}

void Manager::find_tenants() {
  for (const auto& daemon : daemons_) {
    const std::vector<PrivateTenant> found = daemon->tenants();
    daemon->make_links(found, plan_.self);
    tenants_.insert(tenants_.end(), found.begin(), found.end());
  }
}

/// Returns the tenant with the program's device; null: the daemons have none of that name.
const PrivateTenant* Manager::program_tenant() const {
  for (const PrivateTenant& tenant : tenants_)
    if (plan_.options.tenant.empty() || tenant.name == plan_.options.tenant) return &tenant;
  return nullptr;
}

void Manager::start_program(const PrivateTenant& tenant) {
  program_ =
      start_child(plan_.mask, [&, manager = ::getpid()] { return run_program(tenant, manager); });
  if (program_ < 0)
    throw std::runtime_error(std::string("no more processes: ") + std::strerror(errno));
}

/// Becomes the program.
int Manager::run_program(const PrivateTenant& tenant, pid_t manager) const {
  if (::setpgid(0, plan_.group) != 0) return kRunFailed;  // softhca-run is gone
  end_with_parent(manager, SIGKILL);
  for (std::size_t i = 0; i < tenants_.size() && i < kMostPrivateTenants; ++i) {
    set_variable("SOFTHCA_" + letter(i), tenants_[i].as.string());
    set_variable("SOFTHCA_" + letter(i) + "_ADDR", tenants_[i].address);
  }
  const std::string problem =
      set_device_variables(tenant.runtime_dir, tenant.name, plan_.libraries);
  if (!problem.empty()) {
    say(problem);
    return kRunFailed;
  }
  return become(plan_.options.command);
}

/// Reports daemons that have ended and, if the program failed, what the others have to tell.
void Manager::report() {
  for (const auto& daemon : daemons_) {
    try {
      const bool failed = !relayed_ && exit_code_of(*program_end_) != 0;
      const std::string events = failed && daemon->running() ? daemon->events() : "";
      if (!events.empty())
        say("the program " + end_text(*program_end_) + "; events of " + daemon->title() + ":\n" +
            events);
    } catch (const CommandError&) {
      // The program saw the end of the daemon before this process did.
      step_until([&] { return !daemon->running(); }, 2s);
    }
    if (!daemon->running()) say(daemon->end() + "; the end of what it printed:\n" + daemon->log());
  }
}

bool Manager::all_run() const {
  for (const auto& daemon : daemons_)
    if (!daemon->running()) return false;
  return true;
}

void Manager::step(std::chrono::milliseconds most) {
  std::vector<pollfd> polled = {{.fd = gone_ ? -1 : plan_.relay, .events = POLLIN, .revents = 0},
                                {.fd = children_, .events = POLLIN, .revents = 0}};
  for (const auto& daemon : daemons_)
    polled.push_back({.fd = daemon->notify_socket(), .events = POLLIN, .revents = 0});
  if (::poll(polled.data(), polled.size(), static_cast<int>(most.count())) <= 0) return;
  if (polled[0].revents != 0) take_signals();
  for (const auto& daemon : daemons_) daemon->read_notifications();
  if (polled[1].revents != 0) take_ended();
}

void Manager::step_until(const std::function<bool()>& done, std::chrono::seconds most) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (!done()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= 0s) return;
    step(std::chrono::ceil<std::chrono::milliseconds>(left));
  }
}

void Manager::take_signals() {
  std::array<unsigned char, 64> bytes;
  const ssize_t got = ::read(plan_.relay, bytes.data(), bytes.size());
  if (got == 0) gone_ = true;
  for (ssize_t i = 0; i < got; ++i) {
    const RelayedSignal signal = RelayedSignal::of(bytes[static_cast<std::size_t>(i)]);
    relayed_ = true;
    if (program_ < 0)
      interrupted_ = signal.number;
    else if (!signal.by_terminal && !program_end_)
      ::kill(program_, signal.number);
  }
}

void Manager::take_ended() {
  std::array<signalfd_siginfo, 16> received;
  while (::read(children_, received.data(), sizeof received) > 0) {
  }
  int status = 0;
  for (pid_t process; (process = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (process == program_) program_end_ = status;
    for (const auto& daemon : daemons_) {
      if (process != daemon->process()) continue;
      daemon->ended(status);
      if (program_ > 0 && !program_end_)
        say(daemon->end() + " while the program ran; the program has lost its device");
    }
  }
}

}  // namespace softhca::cli
