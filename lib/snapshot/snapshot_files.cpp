// SPDX-License-Identifier: Apache-2.0
//
// Names of shards come from an untrusted index file: each must be one plain file name, and a
// refusal says nothing about what lies outside of the folder. Links inside the folder are followed,
// because download caches consist of them.

#include "lib/snapshot/snapshot_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "lib/base/file.h"
#include "lib/snapshot/foreign_format.h"
#include "lib/snapshot/json.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr const char *kIndexName = "model.safetensors.index.json";

bool ends_with(std::string_view text, std::string_view suffix) noexcept {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

bool is_container_name(std::string_view name) noexcept {
  return name.substr(0, 4) == "out-" && ends_with(name, kSuffix);
}

void require_plain_name(const std::string &index_file, std::string_view name) {
  const bool is_plain = !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
                        name.find('/') == std::string_view::npos &&
                        name.find('\\') == std::string_view::npos &&
                        name.find('\0') == std::string_view::npos && ends_with(name, kSuffix);
  if (is_plain) return;
  throw_error(
      StatusCode::kFormat,
      "%s: shard name '%s' is refused: it must be one plain *.safetensors name in the folder",
      index_file.c_str(), printable(name).c_str());
}

// Reads the weight map; returns the shards it names.
std::set<std::string> read_index_file(const std::string &index_name, SnapshotFiles *files) {
  const std::vector<uint8_t> bytes =
      read_whole_file(join_path(files->directory, index_name), kMaxJsonBytes);
  const std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  const JsonDocument document = JsonDocument::parse(text, index_name);
  const JsonValue map = document.root().get("weight_map");
  if (!map.is_object()) {
    throw_error(StatusCode::kFormat, "%s: weight_map is not an object", index_name.c_str());
  }
  std::set<std::string> named;
  files->weight_map.reserve(map.size());
  for (size_t i = 0; i < map.size(); ++i) {
    const auto shard = map.at(i).as_string();
    if (!shard) {
      throw_error(StatusCode::kFormat, "%s: weight_map of %s is not a text", index_name.c_str(),
                  printable(map.key_at(i)).c_str());
    }
    if (files->weight_map.empty() || files->weight_map.back().second != *shard) {
      require_plain_name(index_name, *shard);
      named.emplace(*shard);
    }
    files->weight_map.emplace_back(map.key_at(i), *shard);
  }
  return named;
}

// A shard name taken apart: "model-00002-of-00003" or "out-mtp-00001".
struct NumberedName {
  std::string series;  // what all members share, with '#' for the number
  uint64_t number = 0;
  uint64_t last = 0;  // of the series if the name tells, else 0
};

std::optional<uint64_t> take_number(std::string_view *text) {
  const size_t end = text->find_last_not_of("0123456789");
  const std::string_view digits = text->substr(end == std::string_view::npos ? 0 : end + 1);
  if (digits.empty() || digits.size() > 6) return std::nullopt;
  uint64_t number = 0;
  for (const char digit : digits) number = 10 * number + static_cast<uint64_t>(digit - '0');
  text->remove_suffix(digits.size());
  return number;
}

std::optional<NumberedName> parse_numbered_name(std::string_view name) {
  if (!ends_with(name, kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  std::string_view stem = name;
  const auto number = take_number(&stem);
  if (!number) return std::nullopt;
  if (ends_with(stem, "-of-")) {
    const std::string tail(name.substr(stem.size() - 4));
    stem.remove_suffix(4);
    const auto position = take_number(&stem);
    if (!position) return std::nullopt;
    return NumberedName{std::string(stem) + "#" + tail, *position, *number};
  }
  if (stem != "out-" && stem != "out-mtp-" && stem != "out-idx-") return std::nullopt;
  return NumberedName{std::string(stem) + "#", *number, 0};
}

// Absent numbers of every numbered series among `names`.
std::string describe_gaps(const std::vector<std::string> &names) {
  struct Series {
    std::set<uint64_t> numbers;
    uint64_t last = 0;
  };
  std::map<std::string, Series> all;
  for (const std::string &name : names) {
    const auto parsed = parse_numbered_name(name);
    if (!parsed) continue;
    Series &series = all[parsed->series];
    series.numbers.insert(parsed->number);
    series.last = parsed->last;
  }
  std::string text;
  for (const auto &[pattern, series] : all) {
    // "-of-" counts from 1 as a rule; where it counts from 0 the last number is one less.
    const bool counts_from_zero = series.last == 0 || series.numbers.count(0) != 0;
    const uint64_t first = counts_from_zero ? 0 : 1;
    uint64_t last = *series.numbers.rbegin();
    if (series.last != 0) last = counts_from_zero ? series.last - 1 : series.last;
    std::vector<uint64_t> absent;
    for (uint64_t number = first; number <= last; ++number) {
      if (series.numbers.count(number) == 0) absent.push_back(number);
    }
    if (absent.empty()) continue;
    if (!text.empty()) text += "; ";
    text += "number " + describe_ranges(absent) + " of " + printable(pattern, 60);
  }
  return text;
}

[[noreturn]] void refuse_empty_folder(const std::string &directory,
                                      const std::vector<std::string> &names) {
  for (const std::string &name : names) {
    const char *format = nullptr;
    try {
      format = recognise_foreign_format(*open_file(join_path(directory, name)));
    } catch (const Error &) {
      continue;  // an unreadable bystander does not matter here
    }
    if (format == nullptr) continue;
    throw_error(StatusCode::kNotFound, "no *.safetensors in %s; %s is %s, which is not read",
                printable(directory).c_str(), printable(name).c_str(), format);
  }
  throw_error(StatusCode::kNotFound, "no *.safetensors file in the folder %s",
              printable(directory).c_str());
}

// Refuses a file that is no part of a snapshot.
void require_snapshot_part(const std::string &path) {
  const std::string name = file_name(path);
  if (name == "config.json" || ends_with(name, kIndexSuffix) || ends_with(name, kSuffix)) return;
  if (const char *format = recognise_foreign_format(*open_file(path))) {
    throw_error(StatusCode::kFormat, "%s is %s; only safetensors models are read",
                printable(name).c_str(), format);
  }
  throw_error(StatusCode::kFormat,
              "%s is neither a model folder nor its config.json, *.safetensors or "
              "*.safetensors.index.json",
              printable(path).c_str());
}

std::string describe_absent_names(const std::set<std::string> &named,
                                  const std::vector<std::string> &present) {
  std::vector<std::string> absent;
  for (const std::string &name : named) {
    if (!std::binary_search(present.begin(), present.end(), name)) absent.push_back(name);
  }
  if (absent.empty()) return {};
  std::string text = printable(absent.front(), 60);
  if (absent.size() > 1) {
    text += " and " + std::to_string(absent.size() - 1) + " more (last " +
            printable(absent.back(), 60) + ")";
  }
  return text;
}

}  // namespace

std::string describe_ranges(const std::vector<uint64_t> &ascending) {
  std::string text;
  for (size_t i = 0; i < ascending.size();) {
    size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(ascending[i]);
    if (end - i > 1) text.append("-").append(std::to_string(ascending[end - 1]));
    i = end;
    if (text.size() > 40 && i < ascending.size()) return text + ", ...";
  }
  return text;
}

std::string describe_shards(const std::vector<std::string> &shards) {
  std::string text = "found " + std::to_string(shards.size()) + " shards";
  if (shards.empty()) return text;
  const auto stem = [](const std::string &name) {
    return printable(name.substr(0, name.size() - (ends_with(name, kSuffix) ? kSuffix.size() : 0)),
                     40);
  };
  text += ": " + stem(shards.front());
  if (shards.size() > 1) text += (shards.size() > 2 ? " .. " : ", ") + stem(shards.back());
  return text;
}

void require_inside(const SnapshotFiles &files) {
  std::vector<std::string> names = files.shards;
  names.insert(names.end(), {kIndexName, "config.json", "generation_config.json",
                             "tokenizer_config.json", "tokenizer.json"});
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(files.directory, error);
  for (const std::string &name : names) {
    const std::filesystem::path file =
        std::filesystem::canonical(join_path(files.directory, name), error);
    if (error) continue;  // absent or dangling: what opens it tells
    if (std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
        folder.end()) {
      continue;
    }
    throw_error(
        StatusCode::kFormat,
        "%s is a link that leads out of its folder; put the file there, or allow such links",
        printable(name).c_str());
  }
}

SnapshotFiles locate_snapshot_files(const std::string &path) {
  SnapshotFiles files;
  std::string index_name = kIndexName;
  if (directory_exists(path)) {
    files.directory = path;
  } else if (file_exists(path)) {
    require_snapshot_part(path);
    files.directory = parent_directory(path);
    if (ends_with(path, kIndexSuffix)) index_name = file_name(path);
  } else {
    throw_error(StatusCode::kNotFound, "no model folder or file at %s",
                printable(path, 180).c_str());
  }
  const std::vector<std::string> names = list_files(files.directory);
  std::vector<std::string> present;
  std::copy_if(names.begin(), names.end(), std::back_inserter(present),
               [](const std::string &name) { return ends_with(name, kSuffix); });
  if (std::binary_search(names.begin(), names.end(), index_name)) {
    const std::set<std::string> named = read_index_file(index_name, &files);
    files.missing = describe_absent_names(named, present);
    std::copy_if(
        present.begin(), present.end(), std::back_inserter(files.shards),
        [&](const std::string &name) { return named.count(name) != 0 || is_container_name(name); });
  } else {
    files.shards = std::move(present);
  }
  if (files.shards.empty() && files.missing.empty()) refuse_empty_folder(files.directory, names);
  if (files.shards.size() > kMaxShards) {
    throw_error(StatusCode::kFormat, "%zu *.safetensors files in %s; at most %zu are opened",
                files.shards.size(), printable(files.directory).c_str(), kMaxShards);
  }
  if (files.missing.empty()) files.missing = describe_gaps(files.shards);
  return files;
}

}  // namespace colibri
