// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl/command_help.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "cli/ctl/command_words.hpp"
#include "cli/ctl_text.hpp"

namespace softhca::cli {
namespace {

constexpr std::size_t kWidth = 80;

/// Returns "  left      text", with the text broken into lines.
std::string entry(const std::string& left, const std::string& text, std::size_t column) {
  std::string out = "  " + left;
  const bool is_long = out.size() + 2 > column;
  if (is_long) out += "\n";
  bool is_first = !is_long;
  for (const std::string& line : lines_of(text, kWidth - column)) {
    out += std::string(is_first ? column - out.size() : column, ' ') + line + "\n";
    is_first = false;
  }
  return out;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app, bool positional) {
  return app.get_options([=](const CLI::Option* option) {
    return positional ? option->get_positional() : option->nonpositional();
  });
}

/// Returns "-t, --tenant TENANT".
std::string option_text(const CLI::Option& option) {
  std::string text = option.get_name(false, true);
  if (const std::size_t comma = text.find(','); comma != std::string::npos)
    text.insert(comma + 1, " ");
  if (option.get_items_expected_max() == 0) return text;
  const std::string value = value_kind(option);
  return text + (option.get_items_expected_min() == 0 ? " [" + value + "]" : " " + value);
}

/// Returns the titles of groups of commands, in the order of the commands.
std::vector<std::string> groups_of(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::App* const command : commands_of(app))
    if (std::find(groups.begin(), groups.end(), command->get_group()) == groups.end())
      groups.push_back(command->get_group());
  return groups;
}

std::string options_text(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* const option : options_of(app, false))
    out += entry(option_text(*option), option->get_description(), 26);
  return out.empty() ? out : "\nOptions:\n" + out;
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  std::string title = app->get_description();
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  std::string out = wrapped(title + "\n\nUsage: " + usage_of(*app) + "\n", kWidth);
  const auto arguments = options_of(*app, true);
  if (!arguments.empty()) out += "\nArguments:\n";
  for (const CLI::Option* const argument : arguments)
    out += entry(argument->get_name(true, false), argument->get_description(), 14);
  out += command_list(*app) + options_text(*app);
  const CLI::App* root = app;
  while (root->get_parent() != nullptr) root = root->get_parent();
  if (root == app) return out + "\n" + wrapped(root->get_footer() + "\n", kWidth);
  std::string common;
  for (const CLI::Option* const option : options_of(*root, false))
    if (option != root->get_help_ptr() && option->get_name() != "--version")
      common += (common.empty() ? "" : ", ") + option->get_name();
  return out + "\n" +
         wrapped("Options of every command (see " + root->get_name() + " help): " + common + "\n",
                 kWidth);
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : full_name(*app.get_parent()) + " " + app.get_name();
}

std::string place_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return {};
  std::string above = place_of(*app.get_parent());
  if (!above.empty()) above.replace(above.size() - 2, 1, "");
  return above + app.get_name() + ": ";
}

std::string usage_of(const CLI::App& app) {
  std::string text = full_name(app) + " [OPTION...]";
  for (const CLI::Option* const option : options_of(app, false))
    if (option->get_required()) text += " " + option_text(*option);
  for (const CLI::Option* const argument : options_of(app, true)) {
    std::string name = argument->get_name(true, false);
    if (argument->get_items_expected_max() > 1) name += "...";
    text += " " + (argument->get_required() ? name : "[" + name + "]");
  }
  return commands_of(app).empty() ? text : text + " COMMAND [ARGUMENT...]";
}

std::string command_list(const CLI::App& app) {
  std::string out;
  for (const std::string& group : groups_of(app)) {
    out += "\n" + group + ":\n";
    for (const CLI::App* const command : commands_of(app))
      if (command->get_group() == group)
        out += entry(command->get_name(), command->get_description(), 16);
  }
  return out;
}

void print_help(const CLI::App& app, const std::vector<std::string>& words) {
  const Walk walk(app, words);
  if (!walk.wrong().empty())
    throw CommandError(kUsage, walk.wrong_text(), {{"commands", command_list(walk.app())}});
  std::fputs(HelpFormatter().make_help(&walk.app(), "", CLI::AppFormatMode::Normal).c_str(),
             stdout);
}

}  // namespace softhca::cli
