// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without libFuzzer: first every seed and every prefix of it, then a fixed
// number of mutations from a fixed generator, so that a failure repeats. With arguments it runs
// those files instead (the inputs libFuzzer found).

#include "tests/fuzz/fuzz_driver.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

namespace {

constexpr int kMutations = 20000;

using Generator = std::mt19937;

size_t draw(Generator &generator, size_t bound) {
  return bound == 0 ? 0 : generator() % bound;
}

// The input ends with its allocation, so that a sanitizer sees a read behind it.
void run(const std::string &input) {
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[input.size()]);
  std::copy(input.begin(), input.end(), bytes.get());
  LLVMFuzzerTestOneInput(bytes.get(), input.size());
}

// Texts that tend to upset parsers of numbers and structure.
constexpr const char *kTokens[] = {"18446744073709551615",
                                   "-1",
                                   "9223372036854775808",
                                   "1e308",
                                   "0.5",
                                   "[[[[[[[[[[",
                                   "{\"a\":",
                                   "\"\\u0000\"",
                                   "\\ud800",
                                   "null",
                                   ",",
                                   "\"",
                                   "}",
                                   "\xFF",
                                   "__metadata__",
                                   "\"dtype\":\"F8_E4M3\""};

void mutate_once(Generator &generator, const std::vector<std::string> &seeds, std::string *input) {
  const size_t place = draw(generator, input->size() + 1);
  switch (draw(generator, 6)) {
    case 0:
      if (place < input->size()) (*input)[place] = static_cast<char>(generator());
      break;
    case 1:
      if (place < input->size()) (*input)[place] ^= static_cast<char>(1u << draw(generator, 8));
      break;
    case 2:
      input->erase(place, draw(generator, 16));
      break;
    case 3:
      input->insert(place, input->substr(draw(generator, input->size() + 1), draw(generator, 64)));
      break;
    case 4:
      input->insert(place, kTokens[draw(generator, std::size(kTokens))]);
      break;
    default: {
      const std::string &other = seeds[draw(generator, seeds.size())];
      input->resize(place);
      *input += other.substr(std::min(draw(generator, other.size() + 1), other.size()));
    }
  }
}

int run_seeds() {
  const std::vector<std::string> seeds = colibri::test::fuzz_seeds();
  for (const std::string &seed : seeds) {
    for (size_t size = 0; size <= seed.size(); size += 1 + size / 64) run(seed.substr(0, size));
    run(seed);
  }
  Generator generator(20240607);
  for (int i = 0; i < kMutations; ++i) {
    std::string input = seeds[draw(generator, seeds.size())];
    const size_t n_mutations = 1 + draw(generator, 6);
    for (size_t j = 0; j < n_mutations; ++j) mutate_once(generator, seeds, &input);
    run(input);
  }
  std::printf("%zu seeds and %d mutations ran\n", seeds.size(), kMutations);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 1) return run_seeds();
  for (int i = 1; i < argc; ++i) {
    std::ifstream stream(argv[i], std::ios::binary);
    run(std::string(std::istreambuf_iterator<char>(stream), {}));
  }
  return 0;
}
