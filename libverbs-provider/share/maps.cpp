// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/maps.hpp"

#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace softhca::provider {
namespace {

/// Parses numbers and separators from the front of a line.
class Cursor {
 public:
  Cursor(const char* begin, const char* end) : at_(begin), end_(end) {}

  template <typename Number>
  bool number(Number& value, int base) {
    const auto [next, error] = std::from_chars(at_, end_, value, base);
    at_ = next;
    return error == std::errc{};
  }
  bool character(char wanted) {
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  bool flag(char set, bool& value) {
    if (at_ == end_) return false;
    value = *at_++ == set;
    return true;
  }
  std::string_view rest() {
    while (at_ != end_ && *at_ == ' ') ++at_;
    return {at_, static_cast<std::size_t>(end_ - at_)};
  }

 private:
  const char* at_;
  const char* end_;
};

// PROCMAP_QUERY of linux/fs.h, which the headers of older kernels lack.
struct ProcmapQuery {
  std::uint64_t size, query_flags, query_addr;
  std::uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
  std::uint32_t dev_major, dev_minor;
  std::uint32_t vma_name_size, build_id_size;
  std::uint64_t vma_name_addr, build_id_addr;
};
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr std::uint64_t kReadable = 1, kWritable = 2, kExecutable = 4, kSharedFlag = 8;
constexpr std::uint64_t kCoveringOrNext = 16;

MappingKind kind_of(std::uint64_t inode, std::string_view name) {
  if (name.starts_with("[stack")) return MappingKind::kStack;
  const bool anonymous = name.empty() || name == "[heap]" || name.starts_with("[anon:");
  return inode == 0 && anonymous ? MappingKind::kAnonymous : MappingKind::kOther;
}

}  // namespace

FileIdentity file_of(const Mapping& mapping) {
  return {makedev(mapping.device_major, mapping.device_minor), mapping.inode};
}

Mapping clip(const Mapping& mapping, std::uint64_t begin, std::uint64_t end) {
  Mapping part = mapping;
  part.begin = std::max(mapping.begin, begin);
  part.end = std::min(mapping.end, end);
  part.offset += part.begin - mapping.begin;
  return part;
}

bool parse_mapping(const char* begin, const char* end, Mapping& mapping) {
  Cursor line(begin, end);
  const bool good = line.number(mapping.begin, 16) && line.character('-') &&
                    line.number(mapping.end, 16) && line.character(' ') &&
                    line.flag('r', mapping.readable) && line.flag('w', mapping.writable) &&
                    line.flag('x', mapping.executable) && line.flag('s', mapping.shared) &&
                    line.character(' ') && line.number(mapping.offset, 16) && line.character(' ') &&
                    line.number(mapping.device_major, 16) && line.character(':') &&
                    line.number(mapping.device_minor, 16) && line.character(' ') &&
                    line.number(mapping.inode, 10);
  if (good) mapping.kind = kind_of(mapping.inode, line.rest());
  return good;
}

MapsReader::MapsReader(std::uint64_t from)
    : from_(from), asks_(from != 0), file_(ProcFile::maps()) {}

bool MapsReader::fill() {
  std::memmove(buffer_, buffer_ + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  ssize_t got;
  do {
    got = ::pread(file_.fd(), buffer_ + end_, sizeof(buffer_) - end_, position_);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  end_ += static_cast<std::size_t>(got);
  position_ += got;
  return true;
}

bool MapsReader::next_line(const char*& begin, const char*& end) {
  while (true) {
    const auto* newline =
        static_cast<const char*>(std::memchr(buffer_ + begin_, '\n', end_ - begin_));
    if (newline != nullptr) {
      begin = buffer_ + begin_;
      end = newline;
      begin_ = static_cast<std::size_t>(newline - buffer_) + 1;
      return true;
    }
    // The path is longer than the buffer, but the needed fields precede it.
    if (begin_ == 0 && end_ == sizeof(buffer_)) end_ = sizeof(buffer_) / 2;
    if (!fill()) return false;
  }
}

/// Queries the next mapping. False: the end of the list, or the kernel has no such query; then
/// asks_ becomes false.
bool MapsReader::ask(Mapping& mapping) {
  ProcmapQuery query{};
  query.size = sizeof query;
  query.query_flags = kCoveringOrNext;
  query.query_addr = from_;
  query.vma_name_addr = reinterpret_cast<std::uint64_t>(buffer_);
  query.vma_name_size = sizeof buffer_;
  bool answered = ::ioctl(file_.fd(), kProcmapQuery, &query) == 0;
  const bool long_name = !answered && errno == ENAMETOOLONG;
  if (long_name) {
    query.vma_name_addr = 0;
    query.vma_name_size = 0;
    answered = ::ioctl(file_.fd(), kProcmapQuery, &query) == 0;
  }
  if (!answered) {
    asks_ = errno == ENOENT;
    return false;
  }
  const auto has = [&](std::uint64_t flag) { return (query.vma_flags & flag) != 0; };
  const std::string_view name(buffer_, query.vma_name_size == 0 ? 0 : query.vma_name_size - 1);
  mapping = {query.vma_start,
             query.vma_end,
             query.vma_offset,
             query.inode,
             query.dev_major,
             query.dev_minor,
             has(kReadable),
             has(kWritable),
             has(kExecutable),
             has(kSharedFlag),
             long_name ? MappingKind::kOther : kind_of(query.inode, name)};
  from_ = mapping.end;
  return true;
}

bool MapsReader::read(Mapping& mapping) {
  const char* begin = nullptr;
  const char* end = nullptr;
  while (next_line(begin, end) && parse_mapping(begin, end, mapping))
    if (mapping.end > from_) return true;
  return false;
}

bool MapsReader::next(Mapping& mapping) {
  if (!ok()) return false;
  if (asks_) {
    if (ask(mapping)) return true;
    if (asks_) return false;
  }
  return read(mapping);
}

}  // namespace softhca::provider
