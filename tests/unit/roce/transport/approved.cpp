// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/roce/transport/approved.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace softhca::transport {
namespace {

std::string join(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : ", ") + line;
  return text;
}

}  // namespace

std::string outcome(const FakeEnvironment& env) {
  Lines all;
  const auto add = [&all](const char* name, const Lines& lines) {
    if (!lines.empty()) all.push_back(std::string(name) + join(lines));
  };
  add("sent ", env.sent);
  add("stored ", env.stored);
  add("received ", env.received);
  add("done ", env.done);
  add("", env.events);
  return all.empty() ? "nothing" : join(all);
}

void compare_with_approved(const std::string& name, const std::string& text) {
  const char* root = std::getenv("SOFTHCA_SOURCE_ROOT");
  const std::string path = std::string(root == nullptr ? "." : root) +
                           "/tests/unit/roce/transport/" + name + ".approved";
  std::ifstream file(path);
  std::stringstream approved;
  approved << file.rdbuf();
  EXPECT_EQ(text, approved.str()) << "differs from " << path;
  if (text != approved.str()) std::ofstream(name + ".received") << text;
}

}  // namespace softhca::transport
