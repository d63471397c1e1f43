// SPDX-License-Identifier: Apache-2.0

#include "cli/run/run_guest.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "cli/run/run_environment.hpp"
#include "cli/run/run_processes.hpp"
#include "guest/relay/relay.hpp"

namespace softhca::cli {
namespace {

int guest_failed(const std::string& message) {
  std::fprintf(stderr, "softhca-run: %s\n", message.c_str());
  return kRunFailed;
}

void replace_all(std::string& text, const std::string& word, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(word, at)) != text.npos; at += value.size())
    text.replace(at, word.size(), value);
}

void keep_on_exec(int fd) { ::fcntl(fd, F_SETFD, ::fcntl(fd, F_GETFD) & ~FD_CLOEXEC); }

/// The monitor of the machine: a child process.
class Monitor {
 public:
  explicit Monitor(guest::EventLoop& loop) : loop_(loop) {}
  ~Monitor() {
    loop_.arm(signals_, watch_, 0);
    if (signals_ >= 0) ::close(signals_);
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Starts the command, with these descriptors. Returns why it could not; empty: it runs.
  std::string start(const std::vector<std::string>& command, std::initializer_list<int> inherited) {
    sigset_t set, before;
    ::sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    ::signal(SIGCHLD, SIG_DFL);
    ::sigprocmask(SIG_BLOCK, &set, &before);
    signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) return std::string("signalfd: ") + std::strerror(errno);
    watch_.ready = [this](std::uint32_t) { read_signals(); };
    loop_.arm(signals_, watch_, EPOLLIN);
    const pid_t parent = ::getpid();
    process_ = start_child(before, [&] {
      end_with_parent(parent, SIGTERM);
      for (const int fd : inherited)
        if (fd >= 0) keep_on_exec(fd);
      return become(command);
    });
    return process_ < 0 ? std::string("no more processes: ") + std::strerror(errno) : "";
  }

  /// Returns the exit code; nothing: it runs.
  std::optional<int> end() const { return end_; }

 private:
  void read_signals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      int status = 0;
      if (signal == SIGCHLD) {
        if (::waitpid(process_, &status, WNOHANG) == process_) end_ = exit_code_of(status);
        continue;
      }
      // A terminal sends its signals to the monitor, too. When it closes, the kernel sends SIGHUP
      // to the leader of its session only.
      const bool to_leader = signal == SIGHUP && ::getsid(0) == ::getpid();
      if (!end_ && (info.ssi_code <= 0 || to_leader)) ::kill(process_, signal);
    }
  }

  guest::EventLoop& loop_;
  guest::Watch watch_;
  int signals_ = -1;
  pid_t process_ = -1;
  std::optional<int> end_;
};

}  // namespace

std::vector<std::string> command_of_guest(std::vector<std::string> command,
                                          const GuestWords& words) {
  for (std::string& word : command) {
    replace_all(word, "{region}", "/proc/self/fd/" + std::to_string(words.region));
    replace_all(word, "{bytes}", std::to_string(words.bytes));
    replace_all(word, "{channel}", std::to_string(words.channel));
  }
  return command;
}

int run_guest(const RunOptions& options, const std::filesystem::path& runtime_directory,
              const std::string& tenant) {
  const std::string folder = runtime_directory / tenant;
  auto machine = guest::Machine::take(folder + "/socket");
  if (!machine) return guest_failed(machine.error().message);
  guest::EventLoop loop;
  if (const auto opened = loop.open(); !opened) return guest_failed(opened.error().message);
  guest::Report report("softhca-run");
  guest::Relay relay(loop, *machine,
                     {.folder = folder, .tenant = tenant, .seal = options.guest.seal}, report);
  int ends[2] = {-1, -1};
  const std::string& place = options.guest.channel;
  if (!place.empty()) {
    if (const auto listens = relay.listen(place); !listens)
      return guest_failed(listens.error().message);
  } else {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return guest_failed(std::string("no socket: ") + std::strerror(errno));
    relay.connect(UniqueFd(ends[0]));
  }
  Monitor monitor(loop);
  const auto command = command_of_guest(
      options.command,
      {.region = machine->region(), .bytes = machine->bytes(), .channel = ends[1]});
  if (const auto why = monitor.start(command, {machine->region(), ends[1]}); !why.empty())
    return guest_failed(why);
  if (ends[1] >= 0) ::close(ends[1]);
  while (!monitor.end()) {
    relay.flush();
    if (const auto stepped = loop.step(-1); !stepped) return guest_failed(stepped.error().message);
  }
  return *monitor.end();
}

}  // namespace softhca::cli
