// SPDX-License-Identifier: Apache-2.0

// What a keeper holds, as a text file: the state that an adapter of some release left. Sockets and
// eventfds have no content; what a test needs to know of the objects is written beside them.
//
//   kept 3 memory 1 262144      number, role, bytes; lines of 32 bytes that are not zero follow:
//    4a0 00000001000000...      place, content
//   kept 7 socket
//   value pd 2
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

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
      if (kept.base == nullptr) {
        out << kind_of(kept.fd.get()) << '\n';
        continue;
      }
      out << "memory " << static_cast<unsigned>(kept.role) << ' ' << kept.bytes << '\n';
      for (std::size_t at = 0; at < kept.bytes; at += kLine) write_line(out, kept.base, at);
    }
    for (const auto& [name, value] : values) out << "value " << name << ' ' << value << '\n';
  }

  /// Makes what the file describes. Errors: std::runtime_error.
  GoldenState(const std::string& path, FakeKeeper& keeper) {
    std::ifstream in(path);
    std::string line;
    std::span<std::byte> memory;
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::string word;
      if (line.starts_with(' ')) {
        read_line(words, memory);
      } else if (words >> word; word == "value") {
        words >> word;
        words >> values_[word];
      } else if (word == "kept") {
        KeptId id = 0;
        words >> id >> word;
        FakeKeeper::Kept kept = word == "memory" ? make_memory(words) : FakeKeeper::Kept{};
        if (word == "memory")
          memory = {kept.base, kept.bytes};
        else
          kept.fd = make(word, id);
        keeper.put(id, std::move(kept));
      }
    }
    if (values_.empty()) throw std::runtime_error(path + " has no state");
  }

  std::uint64_t value(const std::string& name) const { return values_.at(name); }
  std::uint32_t number(const std::string& name) const {
    return static_cast<std::uint32_t>(value(name));
  }
  /// Returns the end that a process has of a kept socket.
  UniqueFd take_other_end(KeptId socket) { return std::move(other_ends_.at(socket)); }

 private:
  static constexpr std::size_t kLine = 32;

  static std::string kind_of(int fd) {
    const std::string link =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
    if (link.starts_with("socket:")) return "socket";
    if (link.find("eventfd") != std::string::npos) return "eventfd";
    if (link.find("pidfd") != std::string::npos) return "pidfd";
    throw std::runtime_error("a descriptor of unknown kind: " + link);
  }
  static void write_line(std::ostream& out, const std::byte* base, std::size_t at) {
    if (std::all_of(base + at, base + at + kLine, [](std::byte b) { return b == std::byte{}; }))
      return;
    char text[4];
    out << ' ' << std::hex << at << std::dec << ' ';
    for (std::size_t i = at; i < at + kLine; ++i) {
      std::snprintf(text, sizeof text, "%02x", static_cast<unsigned>(base[i]));
      out << text;
    }
    out << '\n';
  }
  static void read_line(std::istream& words, std::span<std::byte> memory) {
    std::size_t at = 0;
    std::string text;
    words >> std::hex >> at >> text;
    if (text.size() != 2 * kLine || at + kLine > memory.size())
      throw std::runtime_error("a line of memory is damaged");
    for (std::size_t i = 0; i < kLine; ++i)
      memory[at + i] = static_cast<std::byte>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  static FakeKeeper::Kept make_memory(std::istream& words) {
    unsigned role = 0;
    std::size_t bytes = 0;
    words >> role >> bytes;
    UniqueFd fd(::memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw std::runtime_error("memory");
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) throw std::runtime_error("memory");
    return {std::move(fd), static_cast<std::byte*>(at), bytes, static_cast<KeptRole>(role)};
  }
  UniqueFd make(const std::string& kind, KeptId id) {
    if (kind == "eventfd") return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (kind == "pidfd")
      return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      throw std::runtime_error("a socket");
    other_ends_[id] = UniqueFd(ends[0]);
    return UniqueFd(ends[1]);
  }

  std::map<std::string, std::uint64_t> values_;
  std::map<KeptId, UniqueFd> other_ends_;
};

}  // namespace softhca
