// SPDX-License-Identifier: Apache-2.0

// Connections made and torn down, many at once. Both ends write down what became of each.
//
// usage: connection-storm serve ADDRESS PORT LOG
//        connection-storm connect ADDRESS PORT CLIENT CONNECTS AT-ONCE LOG
// A server ends by SIGTERM, a client with code 0 when each of its connects has ended.
#include "tests/system/rdma_cm/connections/channel.hpp"

int main(int argc, char** argv) {
  const auto number = [&](int i) {
    return static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10));
  };
  if (argc == 5 && std::strcmp(argv[1], "serve") == 0) {
    storm::serve(argv[2], argv[3], argv[4]);
  } else if (argc == 8 && std::strcmp(argv[1], "connect") == 0) {
    storm::connect({argv[2], argv[3], number(4), number(5), number(6)}, argv[7]);
  } else {
    std::fprintf(stderr,
                 "usage: connection-storm serve ADDRESS PORT LOG\n"
                 "       connection-storm connect ADDRESS PORT CLIENT CONNECTS AT-ONCE LOG\n");
    return 2;
  }
}
