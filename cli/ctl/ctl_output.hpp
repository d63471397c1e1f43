// SPDX-License-Identifier: Apache-2.0

// How softhcactl prints: tables and sentences that fit the terminal, or documents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/admin_client.hpp"
#include "cli/ctl_text.hpp"

namespace softhca::cli {

enum class Format : std::uint8_t { kTable, kWide, kJson, kYaml };

struct OutputStyle {
  Format format = Format::kTable;
  bool exact = false;     ///< numbers without units
  bool color = false;     ///< text for a terminal that shows colours
  bool live = false;      ///< each round of a repeated output replaces the one before
  std::size_t width = 0;  ///< columns of a line; 0: any number
};

/// Returns the format of this name. Throws CommandError(kUsage).
Format format_of(const std::string& name);
/// Returns the style for standard output. `color`: auto, always or never. Without -o wide, lines
/// are as long as $COLUMNS says, or as the terminal is wide; in a file or pipe they have any
/// length.
OutputStyle style_of(Format format, const std::string& color, bool exact);

/// Sends what was printed on its way. Throws CommandError if standard output has not taken all.
void flush_output();

class Output {
 public:
  explicit Output(const OutputStyle& style) : style_(style) {}

  bool is_document() const {
    return style_.format == Format::kJson || style_.format == Format::kYaml;
  }
  bool is_wide() const { return style_.format == Format::kWide; }
  /// Prints a document as JSON, in one line, or as YAML. False: neither was asked for.
  bool document(const Json& document);
  /// Prints sentences. Breaks long lines between words.
  void print(std::string_view text) const;
  void print(const TextTable& table) const;
  /// Prints an empty line and a table.
  void section(const TextTable& table) const;
  /// Begins a round of a repeated output.
  void begin_round();

  /// Returns a number such as "47", "12345", "1.23M".
  std::string count(double value) const;
  std::string count(const Json& object, const char* key) const;
  /// Returns "1.5 GiB".
  std::string bytes(double value) const;
  std::string bytes(const Json& object, const char* key) const;
  /// Returns "2.3 M/s".
  std::string rate(double per_second) const;
  /// Returns "1.5 GiB/s".
  std::string byte_rate(double per_second) const;

 private:
  const OutputStyle style_;
  unsigned documents_ = 0;
  unsigned rounds_ = 0;
};

/// Returns a document in block style, with an end of line. Any parser of YAML 1.1 or 1.2 reads the
/// same values as a parser of JSON reads of the document.
std::string yaml_text(const Json& document);

}  // namespace softhca::cli
