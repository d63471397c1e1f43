// SPDX-License-Identifier: Apache-2.0

// Runs a fuzz target once for each file of a folder: the inputs that are kept, without a fuzzer and
// with any compiler.
//
// usage: replay-TARGET FOLDER|FILE...
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/input.hpp"

namespace {

void run(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  // A crash has no other way to say with what.
  std::fprintf(stderr, "%s\n", file.c_str());
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  unsigned count = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      run(argv[i]);
      ++count;
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
      if (entry.is_regular_file()) {
        run(entry.path());
        ++count;
      }
  }
  std::printf("%u inputs\n", count);
  return count == 0 ? 1 : 0;
}
