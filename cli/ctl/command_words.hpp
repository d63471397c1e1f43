// SPDX-License-Identifier: Apache-2.0

// Reads the words of a command line along the tree of commands: to complete the last one, and to
// explain a wrong one.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace softhca::cli {

/// Returns the commands of a command.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

/// Reads words up to the first one that fits nothing.
class Walk {
 public:
  /// `app` must outlive it.
  Walk(const CLI::App& app, const std::vector<std::string>& words);

  /// Returns the command so far.
  const CLI::App& app() const { return *app_; }
  /// Returns the option that takes the next word as its value; null: none.
  const CLI::Option* open_option() const { return open_; }
  /// Returns the argument of the command that the next word is; null: none.
  const CLI::Option* next_argument() const;
  /// Returns the word that fits nothing; empty: none.
  const std::string& wrong() const { return wrong_; }
  /// Returns a sentence about the wrong word.
  std::string wrong_text() const;
  /// Returns the value of an option of the root, such as "--socket"; empty: not given.
  std::string value_of(const std::string& option) const;
  /// Returns the option of this name, of the command or of those above it; null: none.
  const CLI::Option* option_of(const std::string& name) const;

 private:
  void read(const std::string& word);
  void read_option(const std::string& word);

  const CLI::App* app_;
  const CLI::Option* open_ = nullptr;
  bool only_arguments_ = false;  ///< after "--"
  std::size_t arguments_ = 0;
  std::map<std::string, std::string> values_;
  std::string wrong_;
};

/// Returns up to three candidates that are like the word, the best first.
std::vector<std::string> similar_words(const std::string& word,
                                       const std::vector<std::string>& candidates);
/// Returns `unknown KIND "WORD"; did you mean CANDIDATE?`, or the known words if none is similar.
std::string unknown_text(const std::string& kind, const std::string& word,
                         const std::vector<std::string>& known);
/// Returns "; did you mean CANDIDATE?"; empty if none is similar.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

/// Returns what values an option takes, such as "TENANT", "N" or "both|sent|received".
std::string value_kind(const CLI::Option& option);
/// Returns the names of a kind that the daemon knows: TENANT, PORT or QPN.
using NamesOf = std::function<std::vector<std::string>(const Walk&, const std::string& kind)>;
/// Returns the lines that a completion script reads: what follows is "words", "files",
/// "directories", "users" or "groups"; then the words that can stand for the last one of `words`,
/// with a description behind a tab.
std::vector<std::string> candidates_for(const CLI::App& app, std::vector<std::string> words,
                                        const NamesOf& names_of);
/// Returns the script that completes the words of softhcactl in bash, zsh or fish.
const char* completion_script(const std::string& shell);

}  // namespace softhca::cli
