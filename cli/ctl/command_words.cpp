// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl/command_words.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "cli/ctl/command_help.hpp"

namespace softhca::cli {
namespace {

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

/// Returns how many letters have to be added, removed, replaced or swapped with a neighbour.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t k = 1; k <= b.size(); ++k) {
      now[k] =
          std::min({last[k] + 1, now[k - 1] + 1, last[k - 1] + (a[i - 1] == b[k - 1] ? 0 : 1)});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        now[k] = std::min(now[k], before[k - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

std::string joined(const std::vector<std::string>& words, const char* between,
                   const char* before_last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? before_last : between) + words[i];
  return text;
}

/// Returns the options of a command and of those above it.
std::vector<const CLI::Option*> all_options(const CLI::App& app) {
  std::vector<const CLI::Option*> all;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent())
    for (const CLI::Option* const option :
         at->get_options([](const CLI::Option* one) { return one->nonpositional(); }))
      all.push_back(option);
  return all;
}

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : all_options(app))
    for (const std::string& name : option->get_lnames())
      if (std::find(names.begin(), names.end(), "--" + name) == names.end())
        names.push_back("--" + name);
  return names;
}

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

Walk::Walk(const CLI::App& app, const std::vector<std::string>& words) : app_(&app) {
  for (const std::string& word : words) {
    read(word);
    if (!wrong_.empty()) return;
  }
}

void Walk::read(const std::string& word) {
  if (open_ != nullptr) {
    // A value that may be missing begins with a digit.
    const CLI::Option* const option = std::exchange(open_, nullptr);
    if (option->get_items_expected_min() > 0 ||
        (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0)) {
      values_[option->get_name()] = word;
      return;
    }
  }
  if (!only_arguments_ && word == "--") {
    only_arguments_ = true;
    return;
  }
  if (!only_arguments_ && is_option(word)) return read_option(word);
  for (const CLI::App* const command : commands_of(*app_))
    if (command->get_name() == word) {
      app_ = command;
      return;
    }
  if (next_argument() == nullptr) {
    wrong_ = word;
    return;
  }
  ++arguments_;
}

void Walk::read_option(const std::string& word) {
  const bool is_long = word.starts_with("--");
  const std::size_t equals = is_long ? word.find('=') : std::string::npos;
  const CLI::Option* const option = option_of(is_long ? word.substr(0, equals) : word.substr(0, 2));
  if (option == nullptr) {
    wrong_ = word;
    return;
  }
  if (option->get_items_expected_max() == 0) return;
  if (is_long && equals != std::string::npos)
    values_[option->get_name()] = word.substr(equals + 1);
  else if (!is_long && word.size() > 2)
    values_[option->get_name()] = word.substr(2);
  else
    open_ = option;
}

const CLI::Option* Walk::next_argument() const {
  std::size_t room = 0;
  for (const CLI::Option* const argument :
       app_->get_options([](const CLI::Option* one) { return one->get_positional(); })) {
    room += static_cast<std::size_t>(argument->get_items_expected_max());
    if (arguments_ < room) return argument;
  }
  return nullptr;
}

const CLI::Option* Walk::option_of(const std::string& name) const {
  for (const CLI::App* at = app_; at != nullptr; at = at->get_parent())
    if (const CLI::Option* const option = at->get_option_no_throw(name);
        option != nullptr && option->nonpositional())
      return option;
  return nullptr;
}

std::string Walk::value_of(const std::string& option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::string() : found->second;
}

std::string Walk::wrong_text() const {
  const std::string where = place_of(*app_);
  if (is_option(wrong_)) {
    const std::string name = wrong_.substr(0, wrong_.find('='));
    return where + "unknown option " + name + suggestion(name, long_names(*app_));
  }
  std::vector<std::string> commands;
  for (const CLI::App* const command : commands_of(*app_)) commands.push_back(command->get_name());
  if (commands.empty()) return where + "takes no further argument: \"" + wrong_ + "\"";
  return where + "unknown command \"" + wrong_ + "\"" + suggestion(wrong_, commands);
}

std::vector<std::string> similar_words(const std::string& word,
                                       const std::vector<std::string>& candidates) {
  std::vector<std::pair<std::size_t, std::string>> found;
  std::string lower = word;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string& candidate : candidates) {
    std::string other = candidate;
    for (char& c : other) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::size_t steps = distance(lower, other);
    const bool begins = lower.size() > 1 && other.starts_with(lower);
    if (begins || steps <= std::max<std::size_t>(1, lower.size() / 3))
      found.emplace_back(begins ? std::min<std::size_t>(steps, 1) : steps, candidate);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> best;
  for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 3); ++i)
    best.push_back(found[i].second);
  return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> similar = similar_words(word, candidates);
  return similar.empty() ? "" : "; did you mean " + joined(similar, ", ", " or ") + "?";
}

std::string unknown_text(const std::string& kind, const std::string& word,
                         const std::vector<std::string>& known) {
  const std::string meant = suggestion(word, known);
  return "unknown " + kind + " \"" + word + "\"" +
         (meant.empty() ? "; give " + joined(known, ", ", " or ") : meant);
}

std::string value_kind(const CLI::Option& option) {
  // Checks of CLI11 add their text behind a colon.
  const std::string name = option.get_type_name();
  return name.substr(0, name.find(':'));
}

}  // namespace softhca::cli
