// SPDX-License-Identifier: Apache-2.0

// A program for run_test.cpp, built with AddressSanitizer.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main() {
  const int fd = ::open("/sys/class/infiniband/softhca0/node_type", O_RDONLY);
  char text[8] = {};
  if (fd < 0 || ::read(fd, text, 5) != 5) return EXIT_FAILURE;
  ::close(fd);
  std::puts(text);
  return EXIT_SUCCESS;
}
