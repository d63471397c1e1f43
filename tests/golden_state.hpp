// SPDX-License-Identifier: Apache-2.0

// What a keeper holds, as a text file: the state that an adapter of some release left. Sockets and
// eventfds have no content; what a test needs to know of the objects is written beside them.
//
//   kept 3 memory 1 262144      number, role, bytes; lines of 32 bytes that are not zero follow:
//    4a0 00000001000000...      place, content
//   kept 5 file 0 2000          likewise; role 0
//   kept 7 socket               of records; stream: of bytes
//   kept 9 listener run/socket  its path, in the working directory; stream-listener: of bytes
//   value pd 2
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "daemon/frontend/unix/sockets/unix_socket.hpp"
#include "daemon/live_records/record_store.hpp"
#include "tests/fake_keeper.hpp"

namespace softhca {

class GoldenState {
 public:
  /// Writes what a keeper holds and what `values` has.
  static void write(const std::string& path, const FakeKeeper& keeper,
                    const std::map<std::string, std::uint64_t>& values) {
    std::ofstream out(path);
    for (const auto& [id, kept] : keeper.all()) {
      out << "kept " << id << ' ';
      const std::string kind = kept.base != nullptr ? "memory" : kind_of(kept.fd.get());
      out << kind;
      if (kind == "memory" || kind == "file") write_content(out, kept);
      out << '\n';
    }
    for (const auto& [name, value] : values) out << "value " << name << ' ' << value << '\n';
  }

  /// Makes what the file describes. Errors: std::runtime_error.
  GoldenState(const std::string& path, FakeKeeper& keeper) {
    std::ifstream in(path);
    std::string line;
    int last = -1;
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::string word;
      if (line.starts_with(' ')) {
        read_line(words, last);
      } else if (words >> word; word == "value") {
        words >> word;
        words >> values_[word];
      } else if (word == "kept") {
        KeptId id = 0;
        words >> id >> word;
        FakeKeeper::Kept kept;
        if (word == "memory" || word == "file")
          kept = make_memory(words, word == "memory");
        else if (std::string at; word.ends_with("listener") && words >> at)
          kept.fd = listener(at, word == "listener" ? SOCK_SEQPACKET : SOCK_STREAM);
        else
          kept.fd = make(word, id);
        last = kept.fd.get();
        keeper.put(id, std::move(kept));
      }
    }
    if (values_.empty()) throw std::runtime_error(path + " has no state");
  }

  std::uint64_t value(const std::string& name) const { return values_.at(name); }
  std::uint32_t number(const std::string& name) const {
    return static_cast<std::uint32_t>(value(name));
  }
  /// Returns the kinds of objects that the records of a keeper describe.
  static std::set<records::Kind> kinds(FakeKeeper& keeper) {
    std::set<records::Kind> all;
    FakeKeeping keeping(keeper);
    records::RecordStore store(&keeping);
    if (!store.adopt()) throw std::runtime_error("the records do not fit");
    for (const records::Adopted& each : store.take_adopted()) all.insert(each.kind);
    keeping.retire();
    return all;
  }
  /// Returns the end that a process has of a kept socket.
  UniqueFd take_other_end(KeptId socket) { return std::move(other_ends_.at(socket)); }

 private:
  static constexpr std::size_t kLine = 32;

  static int option_of(int socket, int option) {
    int value = 0;
    socklen_t bytes = sizeof value;
    ::getsockopt(socket, SOL_SOCKET, option, &value, &bytes);
    return value;
  }
  static std::string kind_of_socket(int fd) {
    const bool is_stream = option_of(fd, SO_TYPE) == SOCK_STREAM;
    if (option_of(fd, SO_ACCEPTCONN) == 0) return is_stream ? "stream" : "socket";
    sockaddr_un address{};
    socklen_t bytes = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes);
    return std::string(is_stream ? "stream-listener " : "listener ") + address.sun_path;
  }
  static std::string kind_of(int fd) {
    const std::string link =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
    if (link.starts_with("socket:")) return kind_of_socket(fd);
    if (link.starts_with("/memfd:")) return "file";
    if (link.find("eventfd") != std::string::npos) return "eventfd";
    if (link.find("pidfd") != std::string::npos) return "pidfd";
    throw std::runtime_error("a descriptor of unknown kind: " + link);
  }
  static std::size_t size_of(int fd) {
    return std::filesystem::file_size("/proc/self/fd/" + std::to_string(fd));
  }
  static void write_content(std::ostream& out, const FakeKeeper::Kept& kept) {
    const bool is_mapped = kept.base != nullptr;  // then the descriptor may be closed
    const std::size_t bytes = is_mapped ? kept.bytes : size_of(kept.fd.get());
    out << ' ' << static_cast<unsigned>(kept.role) << ' ' << bytes;
    for (std::size_t at = 0; at < bytes; at += kLine) {
      std::array<std::uint8_t, kLine> line{};
      if (is_mapped)
        std::memcpy(line.data(), kept.base + at, kLine);
      else if (::pread(kept.fd.get(), line.data(), kLine, static_cast<off_t>(at)) <= 0)
        throw std::runtime_error("a kept file cannot be read");
      if (line == std::array<std::uint8_t, kLine>{}) continue;
      out << "\n " << std::hex << at << std::dec << ' ';
      char text[4];
      for (const std::uint8_t byte : line) {
        std::snprintf(text, sizeof text, "%02x", static_cast<unsigned>(byte));
        out << text;
      }
    }
  }
  static void read_line(std::istream& words, int fd) {
    std::size_t at = 0;
    std::string text;
    words >> std::hex >> at >> text;
    const std::size_t bytes = size_of(fd);
    if (text.size() != 2 * kLine || at >= bytes) throw std::runtime_error("a line is damaged");
    std::array<std::uint8_t, kLine> line;
    for (std::size_t i = 0; i < kLine; ++i)
      line[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
    const std::size_t wanted = std::min(kLine, bytes - at);
    if (::pwrite(fd, line.data(), wanted, static_cast<off_t>(at)) != static_cast<ssize_t>(wanted))
      throw std::runtime_error("content");
  }
  static FakeKeeper::Kept make_memory(std::istream& words, bool is_mapped) {
    unsigned role = 0;
    std::size_t bytes = 0;
    words >> role >> bytes;
    UniqueFd fd(::memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw std::runtime_error("memory");
    if (!is_mapped) return {.fd = std::move(fd)};
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) throw std::runtime_error("memory");
    return {std::move(fd), static_cast<std::byte*>(at), bytes, static_cast<KeptRole>(role)};
  }
  UniqueFd make(const std::string& kind, KeptId id) {
    if (kind == "eventfd") return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (kind == "pidfd")
      return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    int ends[2];
    const int type = kind == "stream" ? SOCK_STREAM : SOCK_SEQPACKET;
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      throw std::runtime_error("a socket");
    other_ends_[id] = UniqueFd(ends[0]);
    return UniqueFd(ends[1]);
  }
  static UniqueFd listener(const std::string& path, int type) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    auto socket = control::listen_at(path, {}, type);
    if (!socket) throw std::runtime_error(socket.error().message);
    return std::move(*socket);
  }

  std::map<std::string, std::uint64_t> values_;
  std::map<KeptId, UniqueFd> other_ends_;
};

}  // namespace softhca
