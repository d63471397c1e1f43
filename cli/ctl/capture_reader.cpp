// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl/capture_reader.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "cli/admin_client.hpp"

namespace softhca::cli {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw CommandError(kUnreachable, "the daemon's ring of packets: " + what);
}

}  // namespace

CaptureReader::CaptureReader(int descriptor, std::uint64_t ring_bytes) : size_(ring_bytes) {
  struct stat file;
  if (::fstat(descriptor, &file) != 0) fail(std::strerror(errno));
  if (!std::has_single_bit(ring_bytes) ||
      static_cast<std::uint64_t>(file.st_size) < abi::kCaptureRing + ring_bytes)
    fail("it is shorter than the daemon reported");
  void* const at =
      ::mmap(nullptr, abi::kCaptureRing + size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) fail(std::strerror(errno));
  header_ = std::launder(static_cast<abi::CaptureHeader*>(at));
  ring_ = static_cast<const std::byte*>(at) + abi::kCaptureRing;
}

CaptureReader::~CaptureReader() { ::munmap(header_, abi::kCaptureRing + size_); }

bool CaptureReader::next(Record& out) {
  for (;;) {
    if (taken_ != read_) header_->read.store(taken_ = read_, std::memory_order_release);
    if (read_ == written_) written_ = header_->written.load(std::memory_order_acquire);
    if (read_ == written_) return false;
    const std::size_t offset = read_ & (size_ - 1);
    const std::size_t to_end = size_ - offset;
    std::memcpy(&out.head, ring_ + offset, std::min(to_end, sizeof out.head));
    const bool is_filler = out.head.kind == abi::CaptureKind::kFiller;
    if (out.head.bytes == 0 || out.head.bytes > to_end || out.head.bytes > written_ - read_ ||
        (!is_filler && (out.head.bytes < sizeof out.head ||
                        out.head.captured > out.head.bytes - sizeof out.head ||
                        out.head.interface_id >= abi::kCaptureInterfaces)))
      fail("its contents are invalid; softhcactl and softhcad may be of different versions");
    read_ += out.head.bytes;
    if (is_filler) continue;
    out.bytes = {ring_ + offset + sizeof out.head, out.head.captured};
    return true;
  }
}

}  // namespace softhca::cli
