// SPDX-License-Identifier: Apache-2.0

// capture: writes packets of tenants as pcapng, as they are on the wire or would be.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "cli/ctl/capture_reader.hpp"
#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"
#include "cli/ctl/pcapng.hpp"

namespace softhca::cli {
namespace {

using std::chrono::steady_clock;

// Interval between reads of an empty ring, because the daemon does not wake the reader.
constexpr int kPauseMilliseconds = 2;
// Most packets between two flushes of the output.
constexpr unsigned kBurst = 256;

volatile sig_atomic_t stopped = 0;

/// Makes a signal end the capture in order, and a second one at once. Ignores SIGPIPE, because the
/// end of a pipe's reader is not an error.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stopped = 1; };
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

struct Closer {
  void operator()(std::FILE* file) const {
    if (file != stdout) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, Closer>;

/// Opens a file and empties it. The file must belong to this user or to root. A new one is for its
/// owner alone, because it holds packets of tenants. Does not follow links: in a folder that other
/// users can write, they may have made one. -1: errno has the reason.
int open_emptied(const std::string& path) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return -1;
  struct stat found;
  int error = ::fstat(fd, &found) == 0 ? 0 : errno;
  if (error == 0 && found.st_uid != ::geteuid() && found.st_uid != 0) error = EPERM;
  if (error == 0 && S_ISREG(found.st_mode) && ::ftruncate(fd, 0) != 0) error = errno;
  if (error == 0) return fd;
  ::close(fd);
  errno = error;
  return -1;
}

File open_output(const std::string& path) {
  if (path.empty() || path == "-") {
    if (::isatty(STDOUT_FILENO) != 0)
      throw CommandError(kUsage,
                         "standard output is a terminal: write packets to a file with -w FILE, or "
                         "to a pipe, as in `softhcactl capture | tshark -r -`");
    return File(stdout);
  }
  const int fd = open_emptied(path);
  if (fd < 0) {
    const char* const hint = errno == ELOOP   ? "; it is a link: name the file, or - for a pipe"
                             : errno == EPERM ? "; it is another user's: name a new file"
                                              : "";
    throw CommandError(kRefused, path + ": " + std::strerror(errno) + hint);
  }
  return File(::fdopen(fd, "wb"));
}

/// The daemon's end of a capture: its reply to capture.start, with the descriptors.
class Source {
 public:
  /// Starts the capture. `daemon` must outlive it.
  Source(AdminClient& daemon, const CaptureArguments& options)
      : descriptors_(daemon.descriptors()) {
    Json params = Json::object();
    if (!options.tenant.empty()) params["tenant"] = options.tenant;
    if (!options.port.empty()) params["port"] = options.port;
    if (options.snaplen != 0) params["snaplen"] = options.snaplen;
    if (options.buffer != 0) params["ring_bytes"] = std::uint64_t{options.buffer} << 20;
    const Json told = daemon.call("capture.start", params);
    if (told.at("version") != abi::kCaptureVersion || descriptors_.size() != 2)
      throw CommandError(
          kUnreachable,
          "softhcad writes captures in another format; install the softhcactl of its version");
    remarks_ = told.at("remarks").get<std::vector<std::string>>();
    reader_.emplace(descriptors_[0], told.at("ring_bytes").get<std::uint64_t>());
  }

  CaptureReader& reader() { return *reader_; }
  std::string_view remark(std::uint8_t number) const {
    return number < remarks_.size() ? std::string_view(remarks_[number]) : "dropped";
  }
  /// Sleeps for a moment, or until a signal. False: the adapter has ended.
  bool pause() const {
    pollfd end{.fd = descriptors_[1], .events = 0, .revents = 0};
    return ::poll(&end, 1, kPauseMilliseconds) <= 0;
  }

 private:
  const std::vector<int>& descriptors_;
  std::vector<std::string> remarks_;
  std::optional<CaptureReader> reader_;
};

/// The pcapng output.
class CaptureFile {
 public:
  CaptureFile(std::FILE* file, std::uint32_t snaplen)
      : file_(file), snaplen_(snaplen), pcapng_(file, "softhcactl capture") {}

  void take(const CaptureReader::Record& record, std::string_view remark) {
    Interface& at = interfaces_[record.head.interface_id];
    if (record.head.kind == abi::CaptureKind::kInterface) {
      const std::string name = record.text();
      const bool is_local = name.ends_with(" local");
      at.number = pcapng_.add_interface(
          name, is_local ? "stays inside the daemon; as it would be on a wire" : "on the wire",
          snaplen_);
      return;
    }
    if (record.head.kind != abi::CaptureKind::kPacket || !at.number) return;
    pcapng_.add_packet({.interface_id = *at.number,
                        .time = record.head.time,
                        .bytes = record.bytes,
                        .length = record.head.length,
                        .direction = static_cast<PcapngWriter::Direction>(record.head.direction),
                        .comment = remark});
    ++at.packets;
    ++packets_;
  }
  /// Writes the statistics and flushes the output. Returns how many packets were dropped.
  std::uint64_t end(const CaptureReader& reader) {
    const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    std::uint64_t all_dropped = 0;
    for (std::uint16_t id = 0; id < abi::kCaptureInterfaces; ++id) {
      const std::uint64_t dropped = reader.dropped(id);
      all_dropped += dropped;
      if (const Interface& at = interfaces_[id]; at.number)
        pcapng_.add_statistics(*at.number, static_cast<std::uint64_t>(now.count()),
                               at.packets + dropped, dropped);
    }
    flush();
    return all_dropped;
  }
  /// Flushes the output. False: its reader has ended. Throws CommandError if it cannot be written.
  bool flush() {
    if (std::fflush(file_) == 0 && std::ferror(file_) == 0) return true;
    if (errno == EPIPE) {
      ::__fpurge(file_);  // so that the end of softhcactl finds no output that was not taken
      std::clearerr(file_);
      return false;
    }
    throw CommandError(kUnwritten, std::string("cannot write packets: ") + std::strerror(errno));
  }
  std::uint64_t packets() const { return packets_; }

 private:
  struct Interface {
    std::optional<std::uint32_t> number;  ///< in the file
    std::uint64_t packets = 0;
  };

  std::FILE* file_;
  const std::uint32_t snaplen_;
  PcapngWriter pcapng_;
  std::array<Interface, abi::kCaptureInterfaces> interfaces_;
  std::uint64_t packets_ = 0;
};

/// Writes the packets that wait in the ring, up to a burst. False: `most` packets have been
/// written.
bool drain(Source& source, CaptureFile& output, std::uint64_t most) {
  CaptureReader::Record record;
  for (unsigned i = 0; i < kBurst && source.reader().next(record); ++i) {
    output.take(record, source.remark(record.head.remark));
    if (most != 0 && output.packets() >= most) return false;
  }
  return true;
}

/// Tells why the daemon's end of the capture is closed.
const char* why_ended(AdminClient& daemon) {
  try {
    daemon.reconnect();
    daemon.read("status");
  } catch (const CommandError&) {
    return "the daemon has ended";
  }
  return "the adapter of the daemon was replaced, which ends captures";
}

}  // namespace

void capture(AdminClient& daemon, const CaptureArguments& options, Output& out) {
  catch_signals();
  Source source(daemon, options);
  const File file = open_output(options.file);
  const bool to_stdout = file.get() == stdout;
  CaptureFile output(file.get(), options.snaplen);
  if (!output.flush()) return;
  std::optional<steady_clock::time_point> end;
  if (options.seconds != 0)
    end = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                    std::chrono::duration<double>(std::min(options.seconds, 1e9)));
  bool there = true;
  for (std::uint64_t before = 1; stopped == 0;) {
    if (before == output.packets()) {  // no packet since the last round
      if (!there) break;
      there = source.pause();
    }
    before = output.packets();
    const bool more = drain(source, output, options.count);
    if (before != output.packets() && !output.flush()) return;
    if (!more || (end && steady_clock::now() >= *end)) break;
  }
  const std::uint64_t dropped = output.end(source.reader());
  const bool told =
      !to_stdout && out.document({{"packets", output.packets()}, {"dropped", dropped}});
  if (!told)
    std::fprintf(stderr, "%llu packets captured, %llu dropped because the buffer was full\n",
                 static_cast<unsigned long long>(output.packets()),
                 static_cast<unsigned long long>(dropped));
  if (!there) throw CommandError(kUnreachable, why_ended(daemon));
}

}  // namespace softhca::cli
