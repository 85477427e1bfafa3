// SPDX-License-Identifier: Apache-2.0
//
// Time to open a vocabulary, to encode one long text, and to encode many short ones, on one thread.
// The Python counterpart measures Hugging Face tokenizers on the same texts:
//   tokenizer_bench VOCABULARY TEXT [--runs N]
// TEXT is a UTF-8 file; its lines are the short texts. The best of N runs counts (default 5).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "lib/base/file.h"
#include "lib/tokenizer/tokenizer.h"

namespace {

using colibri::ControlTokens;
using colibri::Tokenizer;

template <typename Body>
double best_seconds(int n_runs, Body body) {
  double best = 1e9;
  for (int i = 0; i < n_runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count());
  }
  return best;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void run(const std::string &vocabulary, const std::string &text_path, int n_runs) {
  const std::vector<uint8_t> bytes = colibri::read_whole_file(text_path, colibri::kMaxTextBytes);
  const std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  const std::vector<std::string_view> lines = split_lines(text);

  const double open = best_seconds(n_runs, [&] { Tokenizer::open(vocabulary); });
  const auto tokenizer = Tokenizer::open(vocabulary);
  std::vector<int32_t> ids;
  const double whole = best_seconds(n_runs, [&] {
    ids.clear();
    tokenizer->encode(text, ControlTokens::kAllowed, &ids);
  });
  const size_t n_ids = ids.size();
  const double many = best_seconds(n_runs, [&] {
    for (const std::string_view line : lines) {
      ids.clear();
      tokenizer->encode(line, ControlTokens::kAllowed, &ids);
    }
  });
  const double megabytes = static_cast<double>(bytes.size()) / 1e6;
  std::printf("open %.1f ms; whole text %.2f MB/s (%zu ids); %zu lines %.2f MB/s\n", open * 1e3,
              megabytes / whole, n_ids, lines.size(), megabytes / many);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3 && !(argc == 5 && std::strcmp(argv[3], "--runs") == 0)) {
    std::fprintf(stderr, "usage: tokenizer_bench VOCABULARY TEXT [--runs N]\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argc == 5 ? std::max(1, std::atoi(argv[4])) : 5);
  } catch (const colibri::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
