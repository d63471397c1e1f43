// SPDX-License-Identifier: Apache-2.0

// Completion: what can stand for the last word of a command line, and the scripts that ask for it.
#include <algorithm>
#include <map>

#include "cli/ctl/command_words.hpp"
#include "cli/ctl/ctl_commands.hpp"

namespace softhca::cli {
namespace {

// Each script gives the words up to the cursor to `softhcactl __complete`.
constexpr char kBash[] = R"(# bash completion for softhcactl, which knows itself what fits
_softhcactl() {
  local line=${COMP_LINE:0:COMP_POINT} words reply current word
  read -ra words <<<"$line"
  if [[ $line == *[[:space:]] ]]; then words+=(''); fi
  # What bash replaces: the part of the word behind the last "=" or ":".
  current=${COMP_WORDS[COMP_CWORD]}
  if [[ $current == [=:] ]]; then current=''; fi
  mapfile -t reply < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  COMPREPLY=()
  case ${reply[0]} in
    files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    directories) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    users) mapfile -t COMPREPLY < <(compgen -u -- "$current") ;;
    groups) mapfile -t COMPREPLY < <(compgen -g -- "$current") ;;
    words)
      local typed=${words[${#words[@]} - 1]}
      local before=${typed%"$current"}
      for word in "${reply[@]:1}"; do
        word=${word%%$'\t'*}
        COMPREPLY+=("${word#"$before"}")
        if [[ $word == *= ]]; then compopt -o nospace; fi
      done
      ;;
  esac
}
complete -F _softhcactl softhcactl
)";
constexpr char kZsh[] = R"(#compdef softhcactl
# zsh completion for softhcactl, which knows itself what fits
_softhcactl() {
  local -a reply described keys
  local line
  reply=("${(@f)$("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  case ${reply[1]} in
    files) _files ;;
    directories) _files -/ ;;
    users) _users ;;
    groups) _groups ;;
    words)
      for line in "${(@)reply[2,-1]}"; do
        if [[ ${line%%$'\t'*} == *= ]]; then
          keys+=("${line%%$'\t'*}")
        else
          described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        fi
      done
      (( ${#keys} )) && compadd -S '' -- "${keys[@]}"
      (( ${#described} )) && _describe -t words 'word' described
      ;;
  esac
}
if [[ $funcstack[1] == _softhcactl ]]; then _softhcactl "$@"; else compdef _softhcactl softhcactl; fi
)";
constexpr char kFish[] = R"(# fish completion for softhcactl, which knows itself what fits
function __softhcactl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l reply ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    switch "$reply[1]"
        case files
            __fish_complete_path "$current"
        case directories
            __fish_complete_directories "$current"
        case users
            __fish_complete_users
        case groups
            __fish_complete_groups
        case words
            printf '%s\n' $reply[2..-1]
    end
end
complete -c softhcactl -f -a '(__softhcactl_complete)'
)";

/// Returns the first sentence or part of one, for a list.
std::string short_text(const std::string& text) { return text.substr(0, text.find_first_of(";(")); }

class Candidates {
 public:
  explicit Candidates(std::string typed) : typed_(std::move(typed)) {}

  /// Adds a word, if the typed one is its start.
  void add(const std::string& word, const std::string& text = {}) {
    if (word.starts_with(typed_)) lines_.push_back(before_ + word + "\t" + short_text(text));
  }
  /// Has the words from here on stand behind the first part of the typed one.
  void begin_value(std::size_t at) {
    before_ = typed_.substr(0, at);
    typed_.erase(0, at);
  }
  void set_kind(const char* kind) { lines_.front() = kind; }
  std::vector<std::string> lines() { return std::move(lines_); }

 private:
  std::string typed_;
  std::string before_;
  std::vector<std::string> lines_{"words"};
};

void add_values(Candidates& out, const Walk& walk, const CLI::Option& of, const NamesOf& names_of) {
  static const std::map<std::string, const char*> kShells = {{"PATH", "files"},
                                                             {"FILE", "files"},
                                                             {"DIR", "directories"},
                                                             {"USER", "users"},
                                                             {"GROUP", "groups"}};
  const std::string kind = value_kind(of);
  if (const auto found = kShells.find(kind); found != kShells.end())
    return out.set_kind(found->second);
  if (kind.find('|') != std::string::npos)
    for (const std::string& word : CLI::detail::split(kind, '|')) out.add(word);
  if (kind == "SET-KEY")
    for (const std::string& name : names_of(walk, "TENANT")) out.add(name);
  for (const std::string& key : keys_of(kind)) out.add(key + "=");
  if (kind == "TENANT" || kind == "PORT" || kind == "QPN")
    for (const std::string& name : names_of(walk, kind)) out.add(name);
}

void add_options(Candidates& out, const CLI::App& app) {
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent())
    for (const CLI::Option* const option : at->get_options())
      for (const std::string& name : option->get_lnames())
        if (at == &app || option != at->get_help_ptr())
          out.add("--" + name, option->get_description());
}

void add_commands_of(Candidates& out, const CLI::App& app) {
  for (const CLI::App* const command : commands_of(app))
    out.add(command->get_name(), command->get_description());
}

}  // namespace

std::vector<std::string> candidates_for(const CLI::App& app, std::vector<std::string> words,
                                        const NamesOf& names_of) {
  std::string typed;
  if (!words.empty()) {
    typed = words.back();
    words.pop_back();
  }
  Candidates out(typed);
  const bool is_help = !words.empty() && words.front() == "help";
  if (is_help) words.erase(words.begin());
  const Walk walk(app, words);
  const std::size_t equals = typed.starts_with("--") ? typed.find('=') : std::string::npos;
  if (!walk.wrong().empty()) return out.lines();
  if (walk.open_option() != nullptr && walk.open_option()->get_items_expected_min() > 0) {
    add_values(out, walk, *walk.open_option(), names_of);
  } else if (equals != std::string::npos) {
    out.begin_value(equals + 1);
    if (const CLI::Option* const option = walk.option_of(typed.substr(0, equals)))
      add_values(out, walk, *option, names_of);
  } else if (typed.starts_with("-")) {
    add_options(out, walk.app());
  } else {
    add_commands_of(out, walk.app());
    if (!is_help && walk.next_argument() != nullptr)
      add_values(out, walk, *walk.next_argument(), names_of);
  }
  return out.lines();
}

const char* completion_script(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace softhca::cli
