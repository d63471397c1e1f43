// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/mapped_memory.hpp"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace softhca::guest {

std::vector<abi::MemoryPlace> places_in(std::string_view maps, std::uint64_t device,
                                        std::uint64_t inode) {
  std::vector<abi::MemoryPlace> places;
  std::istringstream lines{std::string(maps)};
  for (std::string line; std::getline(lines, line);) {
    unsigned long begin = 0, end = 0, offset = 0, number = 0;
    unsigned major_number = 0, minor_number = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx %x:%x %lu", &begin, &end, &offset, &major_number,
                    &minor_number, &number) == 6 &&
        number == inode && makedev(major_number, minor_number) == device && end > begin)
      places.push_back({offset, end - begin});
  }
  return places;
}

std::vector<MappedPlaces> find_mapped(std::uint64_t device, std::uint64_t inode) {
  namespace fs = std::filesystem;
  std::vector<MappedPlaces> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t process = 0;
    const auto [stop, wrong] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (wrong != std::errc{} || stop != name.data() + name.size() || process == ::getpid())
      continue;
    std::ostringstream text;
    text << std::ifstream(entry->path() / "maps").rdbuf();
    auto places = places_in(text.str(), device, inode);
    if (!places.empty()) found.push_back({process, std::move(places)});
  }
  return found;
}

}  // namespace softhca::guest
