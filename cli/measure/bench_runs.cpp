// SPDX-License-Identifier: Apache-2.0

#include "cli/measure/bench_runs.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "cli/run_places.hpp"

namespace softhca::cli {
namespace {

namespace fs = std::filesystem;

template <typename Value>
Value found_or_throw(const Found<Value>& found) {
  if (const auto* failure = std::get_if<Failure>(&found))
    throw CommandError(kUnreachable, failure->message);
  return std::get<Value>(found);
}

[[noreturn]] void fail_by_errno(const std::string& what) {
  throw CommandError(kUnreachable, what + ": " + std::strerror(errno));
}

/// A file in memory, which is gone with this process however that ends.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& text)
      : descriptor_(::memfd_create("softhcactl-measure", MFD_CLOEXEC)) {
    if (descriptor_ < 0 ||
        ::write(descriptor_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      fail_by_errno("no file in memory");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor_);
  }
  std::string text() const {
    std::string text(static_cast<std::size_t>(::lseek(descriptor_, 0, SEEK_END)), '\0');
    const ssize_t got = ::pread(descriptor_, text.data(), text.size(), 0);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return text;
  }

 private:
  const int descriptor_;
};

/// Becomes the command. It ends with `parent`.
[[noreturn]] void become(const std::vector<std::string>& command, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv(words[0], words.data());
  ::perror(words[0]);
  ::_exit(127);
}

std::vector<Json> objects_of(const std::string& text) {
  std::vector<Json> objects;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Json object = Json::parse(line, nullptr, false);
    if (object.is_object()) objects.push_back(std::move(object));
  }
  return objects;
}

}  // namespace

BenchRuns::BenchRuns()
    : softhca_run_(found_or_throw(find_softhca_run())),
      softhca_bench_(found_or_throw(find_bench())) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, &before_);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  if (signals_ < 0) fail_by_errno("no signalfd");
}

BenchRuns::~BenchRuns() {
  ::close(signals_);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::vector<Json> BenchRuns::run(const Daemons& daemons,
                                 const std::vector<std::string>& arguments) {
  const MemoryFile configuration(daemons.configuration);
  std::vector<std::string> command = {softhca_run_, "--daemon"};
  if (!daemons.configuration.empty())
    command.insert(command.end(), {"--config", configuration.path()});
  command.insert(command.end(), daemons.options.begin(), daemons.options.end());
  // The shell knows the variables that softhca-run sets.
  std::string script = "exec \"$0\" \"$@\"";
  if (!daemons.server.empty()) script += " --server-as \"$SOFTHCA_" + daemons.server + '"';
  for (const std::string& client : daemons.clients)
    script += " --client-as \"$SOFTHCA_" + client + '"';
  command.insert(command.end(), {"--", "/bin/sh", "-c", script, softhca_bench_, "--json"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Output output = collect(command);
  if (output.status != 0)
    throw CommandError(kRefused, "the measurement failed; it printed:\n" + output.errors);
  return objects_of(output.text);
}

BenchRuns::Output BenchRuns::collect(const std::vector<std::string>& command) {
  const MemoryFile errors("");
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) fail_by_errno("no pipe");
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(errors.descriptor(), STDERR_FILENO);
    become(command, parent);
  }
  const int error = errno;
  ::close(pipe[1]);
  if (child < 0) {
    ::close(pipe[0]);
    errno = error;
    fail_by_errno("no more processes");
  }
  Output output{};
  std::array<pollfd, 2> polled = {pollfd{.fd = pipe[0], .events = POLLIN, .revents = 0},
                                  pollfd{.fd = signals_, .events = POLLIN, .revents = 0}};
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) break;
    signalfd_siginfo received{};
    if (polled[1].revents != 0 &&
        ::read(signals_, &received, sizeof received) == ssize_t{sizeof received})
      end(child, static_cast<int>(received.ssi_signo));
    std::array<char, 4096> bytes;
    if (polled[0].revents == 0) continue;
    const ssize_t got = ::read(pipe[0], bytes.data(), bytes.size());
    if (got <= 0) break;
    output.text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  ::waitpid(child, &output.status, 0);
  output.errors = errors.text();
  return output;
}

void BenchRuns::end(pid_t child, int signal) {
  // A signal of the terminal has come to the child, too; another one has not.
  ::kill(child, SIGTERM);
  ::waitpid(child, nullptr, 0);
  ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);  // it was ignored when this process began
}

}  // namespace softhca::cli
