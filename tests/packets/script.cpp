// SPDX-License-Identifier: Apache-2.0

#include "tests/packets/script.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace softhca::packets {

void Script::run(const std::string& path) {
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  Script script;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    const testing::ScopedTrace trace(path.c_str(), number, text);
    std::istringstream stream(text.substr(0, text.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (!words.empty()) script.line(words);
    if (testing::Test::HasFatalFailure()) return;
  }
  script.finish();
}

void Script::line(const std::vector<std::string>& words) {
  static const std::map<std::string, Command> kCommands = {
      {"world", &Script::make_world}, {"qp", &Script::make_queue_pair},
      {"srq", &Script::make_srq},     {"congestion", &Script::congestion},
      {"post", &Script::post},        {"receive", &Script::receive},
      {"wait", &Script::wait},        {"set", &Script::set},
      {"holds", &Script::holds},      {"completes", &Script::completes},
      {"counted", &Script::counted},  {"state", &Script::state},
      {"event", &Script::event},      {"deregister", &Script::deregister},
      {"attach", &Script::attach},    {"detach", &Script::detach}};
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words[0] == ">") return say(rest);
  if (words[0] == "<") return hear(rest);
  const auto command = kCommands.find(words[0]);
  ASSERT_NE(command, kCommands.end()) << "no such command: " << words[0];
  last_words_ = words;
  Arguments arguments(rest);
  (this->*command->second)(arguments);
  arguments.finish();
}

/// What the adapter says and what completes must all have been expected.
void Script::finish() {
  ASSERT_TRUE(peer_) << "an empty script";
  hear({"nothing"});
  EXPECT_FALSE(cq_->poll()) << "a completion that the script does not expect";
  process_->end();
  process_->adapter.expect_idle();
}

}  // namespace softhca::packets
