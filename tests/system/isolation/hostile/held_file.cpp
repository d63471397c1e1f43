// SPDX-License-Identifier: Apache-2.0

// A file system with one file, "page", of 4096 zeros. Reads of the file block until the input of
// this program ends.
//
// usage: held-file FOLDER
// Says "touched" when a process waits for the file.
#define FUSE_USE_VERSION 31
#include <fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace {

constexpr std::string_view kFile = "/page";
constexpr off_t kBytes = 4096;

int get_attributes(const char* path, struct stat* st, fuse_file_info*) {
  *st = {};
  if (path == kFile) {
    st->st_mode = S_IFREG | 0444;
    st->st_nlink = 1;
    st->st_size = kBytes;
    return 0;
  }
  st->st_mode = S_IFDIR | 0555;
  st->st_nlink = 2;
  return std::string_view(path) == "/" ? 0 : -ENOENT;
}

int read(const char*, char* into, std::size_t bytes, off_t offset, fuse_file_info*) {
  std::puts("touched");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  if (offset >= kBytes) return 0;
  if (bytes > static_cast<std::size_t>(kBytes - offset))
    bytes = static_cast<std::size_t>(kBytes - offset);
  std::memset(into, 0, bytes);
  return static_cast<int>(bytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: held-file FOLDER\n"), 2;
  fuse_operations operations{};
  operations.getattr = get_attributes;
  operations.read = read;
  char single[] = "-s", foreground[] = "-f";
  char* arguments[] = {argv[0], single, foreground, argv[1], nullptr};
  return fuse_main(4, arguments, &operations, nullptr);
}
