// SPDX-License-Identifier: Apache-2.0

// A folder that goes away with its owner.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace softhca::control {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/softhca-control-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// First line of a file; "missing" without one.
inline std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  return std::getline(in, line) ? line : "missing";
}

}  // namespace softhca::control
