#include "daemon/port/capture.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/base/unique_fd.hpp"

namespace softhca::port {
namespace {

// Blocks of pcapng (draft-ietf-opsawg-pcapng): 32-bit words in the writer's byte order.
constexpr std::uint32_t kSectionHeader[] = {0x0a0d0d0a, 28,         0x1a2b3c4d, 0x00000001,
                                            0xffffffff, 0xffffffff, 28};
constexpr std::uint32_t kLinkEthernet = 1;
constexpr std::uint32_t kOptionTimeResolution = 9 | 1 << 16;
constexpr std::uint32_t kNanoseconds = 9;
constexpr std::uint32_t kInterface[] = {
    1, 32, kLinkEthernet, 0, kOptionTimeResolution, kNanoseconds, 0, 32};
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kOptionFlags = 2 | 4 << 16;
/// Block type, length, interface, time (2), captured, original; flags option (2), end of options,
/// length.
constexpr std::uint32_t kPacketOverhead = 11 * 4;

/// Opens a file and empties it. The file must belong to this user or to root. A new one is for this
/// user alone, because it will hold packets of all tenants. Does not follow links: in a folder that
/// other users can write, they may have made one. -1: errno has the reason.
int open_emptied(const std::string& path) {
  UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  struct stat found;
  if (!file || ::fstat(file.get(), &found) != 0) return -1;
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    errno = EPERM;
    return -1;
  }
  if (S_ISREG(found.st_mode) && ::ftruncate(file.get(), 0) != 0) return -1;
  return file.release();
}

}  // namespace

CaptureFile::CaptureFile(std::FILE* file, std::uint64_t most_frames)
    : file_(file), left_(most_frames) {}

Expected<std::unique_ptr<CaptureFile>> CaptureFile::create(const std::string& path,
                                                           std::uint64_t most_frames) {
  const int fd = open_emptied(path);
  std::FILE* f = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (f == nullptr) {
    const int code = errno;
    if (fd >= 0) ::close(fd);
    return Error{"capture file " + path + ": " + std::strerror(code), code};
  }
  std::unique_ptr<CaptureFile> file(new CaptureFile(f, most_frames));
  std::fwrite(kSectionHeader, sizeof kSectionHeader, 1, f);
  std::fwrite(kInterface, sizeof kInterface, 1, f);
  file->unflushed_ = true;
  file->flush();
  return file;
}

void CaptureFile::write(std::span<const std::byte> frame, Direction direction, WallTime when) {
  if (left_ == 0) return;
  --left_;
  unflushed_ = true;
  const auto length = static_cast<std::uint32_t>(frame.size());
  const std::uint32_t padding = -length & 3;
  const std::uint32_t total = kPacketOverhead + length + padding;
  const auto ns = static_cast<std::uint64_t>(when.count());
  const std::uint32_t head[] = {kEnhancedPacket,
                                total,
                                0,
                                static_cast<std::uint32_t>(ns >> 32),
                                static_cast<std::uint32_t>(ns),
                                length,
                                length};
  const std::uint32_t tail[] = {kOptionFlags, static_cast<std::uint32_t>(direction), 0, total};
  constexpr std::uint32_t kZero = 0;
  std::fwrite(head, sizeof head, 1, file_.get());
  std::fwrite(frame.data(), 1, length, file_.get());
  std::fwrite(&kZero, 1, padding, file_.get());
  std::fwrite(tail, sizeof tail, 1, file_.get());
}

void CaptureFile::flush() {
  if (!unflushed_) return;
  std::fflush(file_.get());
  unflushed_ = false;
}

std::size_t CapturePort::receive(std::span<Frame> out) {
  const std::size_t n = inner_->receive(out);
  if (n == 0) return 0;
  const WallTime now = clock_();
  for (const Frame& frame : out.first(n)) file_->write(frame.bytes(), Direction::kInbound, now);
  return n;
}

void CapturePort::transmit(const Frame& frame) {
  file_->write(frame.bytes(), Direction::kOutbound, clock_());
  inner_->transmit(frame);
}

void CapturePort::flush() {
  file_->flush();
  inner_->flush();
}

}  // namespace softhca::port
