// SPDX-License-Identifier: Apache-2.0
//
// Reading stops at the first line that is not whole: behind it nothing is believed, as lines are
// written in order, and work that is done twice is better than work that is not done.

#include "lib/convert/conversion_journal.h"

#include <charconv>

#include "lib/base/checksum.h"
#include "lib/base/file.h"
#include "lib/base/hex_text.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr uint64_t kMaxJournalBytes = 1ull << 30;
constexpr std::string_view kMark = "colibri-conversion";

std::optional<size_t> parse_index(std::string_view text, size_t size) {
  size_t index = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool is_whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  return is_whole && index < size ? std::optional(index) : std::nullopt;
}

uint64_t text_checksum(std::string_view text) {
  return checksum({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

// A line with its checksum and end.
std::string seal(const std::string &text) {
  return text + ' ' + hex_text(text_checksum(text)) + '\n';
}

// The text of a line without its end, if its checksum fits.
std::optional<std::string_view> unseal(std::string_view line) {
  if (line.size() < kHexTextDigits + 1) return std::nullopt;
  const std::string_view text = line.substr(0, line.size() - kHexTextDigits - 1);
  if (line.substr(text.size()) != ' ' + hex_text(text_checksum(text))) return std::nullopt;
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t end = text.find(separator);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

std::string options_text(const PackedOptions &options) {
  return "experts=" + options.experts + ",dense=" + options.dense +
         ",embedding=" + options.embedding + ",head=" + options.head +
         ",group=" + std::to_string(options.group) + ",scales=" + options.scales;
}

std::string first_line(const ConversionBinding &binding) {
  return std::string(kMark) + " 1 source " + hex_text(binding.source_identity) + " options " +
         options_text(binding.options) + " tensors " + hex_text(binding.tensors_hash) + " files " +
         hex_text(binding.files_hash);
}

// What to say of the first word in which a first line differs from the wanted one.
const char *describe_difference(std::string_view word_before) {
  if (word_before == "source") return "of another source, or the source has changed";
  if (word_before == "options") return "with other options";
  if (word_before == "tensors") return "of another list of tensors";
  if (word_before == "files") return "with another config.json or other side files";
  return "by another version of the library";
}

// Where two texts of pieces differ first.
struct Difference {
  std::string before;  // the piece in front, in which both agree
  std::string was, is;
};

Difference find_difference(std::string_view found, std::string_view wanted, char separator) {
  const std::vector<std::string_view> was = split(found, separator);
  const std::vector<std::string_view> is = split(wanted, separator);
  size_t i = 0;
  while (i < was.size() && i < is.size() && was[i] == is[i]) ++i;
  const auto piece = [](const std::vector<std::string_view> &pieces, size_t index) {
    return std::string(index < pieces.size() ? pieces[index] : "nothing");
  };
  return {i == 0 ? std::string() : piece(is, i - 1), piece(was, i), piece(is, i)};
}

void require_same(const std::string &path, std::string_view found, const std::string &wanted) {
  if (found == wanted) return;
  const Difference word = find_difference(found, wanted, ' ');
  const Difference option = find_difference(word.was, word.is, ',');
  throw_error(StatusCode::kMismatch,
              "the unfinished conversion was begun %s (%s there, %s now); give the same again, or "
              "remove the folder '%s'",
              describe_difference(word.before), printable(option.was, 40).c_str(),
              printable(option.is, 40).c_str(), parent_directory(path).c_str());
}

std::string read_journal(const std::string &path) {
  if (!is_named(path)) return {};
  const std::vector<uint8_t> bytes = read_whole_file(path, kMaxJournalBytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

ConversionJournal::ConversionJournal(const std::string &path, const ConversionBinding &binding,
                                     size_t n_tensors)
    : path_(path), checksums_(n_tensors) {
  read_lines(read_journal(path), binding);
  file_ = FileWriter::open(path);
  file_->resize(end_);
  if (end_ == 0) append(seal(first_line(binding)));
}

void ConversionJournal::read_lines(std::string_view text, const ConversionBinding &binding) {
  while (!text.empty()) {
    const size_t length = text.find('\n');
    if (length == std::string_view::npos) return;
    const auto line = unseal(text.substr(0, length));
    if (!line) return;
    if (end_ == 0) {
      require_same(path_, *line, first_line(binding));
    } else if (!read_line(*line)) {
      return;
    }
    end_ += length + 1;
    text.remove_prefix(length + 1);
  }
}

bool ConversionJournal::read_line(std::string_view line) {
  const std::vector<std::string_view> words = split(line, ' ');
  const bool is_done = words[0] == "done" && words.size() == 3;
  if (!is_done && (words[0] != "again" || words.size() != 2)) return false;
  const auto tensor = parse_index(words[1], checksums_.size());
  if (!tensor) return false;
  checksums_[*tensor] = is_done ? parse_hex_text(words[2]) : std::nullopt;
  return true;
}

void ConversionJournal::append(const std::string &lines) {
  file_->write_at(end_, {reinterpret_cast<const uint8_t *>(lines.data()), lines.size()});
  file_->sync();
  end_ += lines.size();
}

void ConversionJournal::record(std::span<const FinishedTensor> finished) {
  std::string lines;
  for (const FinishedTensor &entry : finished) {
    lines += seal("done " + std::to_string(entry.tensor) + ' ' + hex_text(entry.checksum));
  }
  append(lines);
  for (const FinishedTensor &entry : finished) checksums_[entry.tensor] = entry.checksum;
}

void ConversionJournal::retract(size_t tensor) {
  append(seal("again " + std::to_string(tensor)));
  checksums_[tensor].reset();
}

}  // namespace colibri
