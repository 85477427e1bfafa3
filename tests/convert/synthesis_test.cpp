// SPDX-License-Identifier: Apache-2.0
//
// Synthesised snapshots as files, and as models: what the real engine does with them.

#include "lib/convert/synthesis.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "lib/convert/packed_writer.h"
#include "lib/convert/partial_folder.h"
#include "lib/convert/router_simulation.h"
#include "lib/convert/verifier.h"
#include "tests/base/temporary_folder.h"
#include "tests/convert/fixture.h"
#include "tests/golden/engine.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

constexpr uint32_t kLayers = 8;
constexpr size_t kChosen = 4;  // of 32 experts, in colibri-tiny
constexpr size_t kExperts = 32;

SynthesisOptions tiny_options(double skew, double repeat) {
  SynthesisOptions options;
  options.shape = "colibri-tiny";
  options.n_layers = kLayers;
  options.skew = skew;
  options.repeat = repeat;
  options.n_threads = 2;
  return options;
}

using Experts = std::vector<int32_t>;

double share_in_common(const Experts &a, const Experts &b) {
  size_t n = 0;
  for (const int32_t expert : a) n += std::find(b.begin(), b.end(), expert) != b.end() ? 1 : 0;
  return static_cast<double>(n) / static_cast<double>(a.size());
}

// Remembers the experts of every row: layers[layer][row].
class RouteLog : public ForwardObserver {
 public:
  void on_hidden(int32_t, std::span<const ForwardRow>, const float *) override {}
  void on_select(uint32_t, std::span<const ForwardRow>, const int32_t *) override {}
  void on_route(uint32_t layer, std::span<const ForwardRow> rows, const int32_t *experts,
                const float *) override {
    for (size_t r = 0; r < rows.size(); ++r) {
      layers[layer].emplace_back(experts + r * kChosen, experts + (r + 1) * kChosen);
    }
  }
  std::vector<Experts> layers[kLayers];
};

struct Decoded {
  std::vector<int32_t> tokens;
  RouteLog routes;
};

class SynthesisedModel {
 public:
  explicit SynthesisedModel(const SynthesisOptions &options) {
    const std::string path = folder_.path() + "/model";
    synthesise_snapshot(path, options);
    EngineOptions engine;
    engine.n_threads = 2;
    engine.activations = ActivationMode::kInteger;
    engine.latent_norm_eps = 0;
    engine_ = std::make_unique<Engine>(path, engine);
  }

  // Greedily, token by token, from a slot that is empty but for `start`.
  Decoded decode(int32_t start, uint32_t n_tokens) {
    Decoded decoded;
    int32_t token = start;
    for (uint32_t position = 0; position < n_tokens; ++position) {
      const std::vector<float> logits = engine_->run({token}, position, 1, &decoded.routes);
      REQUIRE(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }));
      token = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      decoded.tokens.push_back(token);
    }
    return decoded;
  }

  RouteLog prefill(const std::vector<int32_t> &tokens) {
    RouteLog routes;
    engine_->run(tokens, 0, 0, &routes);
    return routes;
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
};

double measure_repeat(const RouteLog &routes) {
  double sum = 0;
  size_t n = 0;
  for (const std::vector<Experts> &rows : routes.layers) {
    for (size_t r = 1; r < rows.size(); ++r, ++n) sum += share_in_common(rows[r - 1], rows[r]);
  }
  return sum / static_cast<double>(n);
}

double measure_in_common(const RouteLog &a, const RouteLog &b) {
  double sum = 0;
  size_t n = 0;
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    for (size_t r = 0; r < a.layers[layer].size(); ++r, ++n) {
      sum += share_in_common(a.layers[layer][r], b.layers[layer][r]);
    }
  }
  return sum / static_cast<double>(n);
}

TEST_CASE("consecutive tokens of a decoded sequence have the asked share of experts in common") {
  for (const double skew : {0.0, 0.6}) {
    for (const double repeat : {0.4, 0.7}) {
      INFO("skew " << skew << ", repeat " << repeat);
      SynthesisedModel model(tiny_options(skew, repeat));
      double measured = 0;
      for (const int32_t start : {3, 700, 1111, 2047}) {
        const Decoded decoded = model.decode(start, 80);
        measured += measure_repeat(decoded.routes) / 4;
        // The sequence goes round its topic and never stays at a token.
        CHECK(std::set<int32_t>(decoded.tokens.begin(), decoded.tokens.end()).size() > 40);
        for (size_t i = 1; i < decoded.tokens.size(); ++i) {
          CHECK(decoded.tokens[i] != decoded.tokens[i - 1]);
        }
      }
      CHECK(measured == Approx(repeat).margin(0.08));
    }
  }
}

TEST_CASE("slots in different topics have experts in common by chance alone") {
  SynthesisedModel model(tiny_options(0.0, 0.7));
  const std::vector<int32_t> starts = {1, 2, 3, 500, 1001};
  std::vector<Decoded> slots;
  for (const int32_t start : starts) slots.push_back(model.decode(start, 40));
  double measured = 0;
  double n = 0;
  for (size_t a = 0; a < slots.size(); ++a) {
    for (size_t b = a + 1; b < slots.size(); ++b, ++n) {
      measured += measure_in_common(slots[a].routes, slots[b].routes);
    }
  }
  CHECK(measured / n == Approx(static_cast<double>(kChosen) / kExperts).margin(0.05));
}

TEST_CASE("experts are used as unevenly as asked, and in every layer others") {
  // Tokens of all topics: a topic by itself has favourites of its own.
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 160; ++i) tokens.push_back((i * 389 + 5) % 2048);
  std::vector<double> shares_of_first;
  for (const double skew : {0.0, 0.7, 1.5}) {
    SynthesisedModel model(tiny_options(skew, 0.7));
    const RouteLog routes = model.prefill(tokens);
    const std::vector<double> wanted = target_frequencies({kExperts, kChosen}, skew);
    std::vector<double> found(kExperts, 0.0);
    std::set<int32_t> favourites;
    for (const std::vector<Experts> &rows : routes.layers) {
      std::vector<double> uses(kExperts, 0.0);
      for (const Experts &experts : rows) {
        for (const int32_t expert : experts) uses[static_cast<size_t>(expert)] += 1;
      }
      favourites.insert(
          static_cast<int32_t>(std::max_element(uses.begin(), uses.end()) - uses.begin()));
      std::sort(uses.rbegin(), uses.rend());
      for (size_t r = 0; r < kExperts; ++r) {
        found[r] += uses[r] / static_cast<double>(rows.size()) / kLayers;
      }
    }
    INFO("skew " << skew);
    CHECK(favourites.size() > 2);
    // Sorting what was found lifts the first ranks above what was wanted, most where all are equal.
    const double lift = skew == 0.0 ? 0.15 : 0.05;
    for (const size_t rank : {0u, 1u, 3u, 7u, 15u}) {
      INFO("rank " << rank);
      CHECK(found[rank] == Approx(wanted[rank]).margin(lift));
    }
    shares_of_first.push_back(found[0]);
  }
  CHECK(shares_of_first[0] < 0.3);
  CHECK(shares_of_first[1] > 0.5);
  CHECK(shares_of_first[2] > 0.85);
}

TEST_CASE("a snapshot is sound, and the same with any number of threads") {
  const TemporaryFolder folder;
  const std::string one = folder.path() + "/one";
  const std::string three = folder.path() + "/three";
  SynthesisOptions options = tiny_options(0.5, 0.5);
  options.n_layers = 2;
  options.n_threads = 1;
  synthesise_snapshot(one, options);
  options.n_threads = 3;
  synthesise_snapshot(three, options);
  CHECK(read_folder(one) == read_folder(three));
  CHECK(verify_snapshot(one, 2, nullptr).damaged.empty());
  CHECK(Snapshot::open(one).sources().ignored_tensors.empty());

  options.seed = 2;
  const std::string other = folder.path() + "/other";
  synthesise_snapshot(other, options);
  CHECK(read_folder(one) != read_folder(other));
}

TEST_CASE("a stopped synthesis leaves no snapshot, and the same call goes on with it") {
  const TemporaryFolder folder;
  const std::string whole = folder.path() + "/whole";
  const std::string path = folder.path() + "/part";
  SynthesisOptions options = tiny_options(0.0, 0.4);
  uint64_t last_done = 0, last_total = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    CHECK(done >= last_done);
    CHECK(done <= total);
    last_done = done;
    last_total = total;
    return true;
  };
  synthesise_snapshot(whole, options);
  CHECK(last_done == last_total);

  // At the start, in the middle of writing, and in the middle of reading back.
  for (const double stop : {0.0, 0.25, 0.75}) {
    bool is_first = true;
    options.progress = [&](uint64_t done, uint64_t total) {
      const auto wanted = static_cast<uint64_t>(stop * static_cast<double>(total));
      // It goes on where the one before had stopped.
      if (is_first) CHECK((done > 0) == (stop > 0.25));
      is_first = false;
      return done < wanted;
    };
    expect_failure(StatusCode::kCancelled, {path + ".partial"},
                   [&] { synthesise_snapshot(path, options); });
    CHECK_FALSE(std::filesystem::exists(path));
  }
  SynthesisOptions other = options;
  other.progress = nullptr;
  other.seed = 2;
  expect_failure(StatusCode::kMismatch, {path + ".partial"},
                 [&] { synthesise_snapshot(path, other); });
  options.progress = nullptr;
  synthesise_snapshot(path, options);
  CHECK(read_folder(path) == read_folder(whole));
}

TEST_CASE("options outside their range are refused by name, and nothing is made") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/model";
  const auto refuse = [&](const char *part, const std::function<void(SynthesisOptions *)> &spoil) {
    SynthesisOptions options = tiny_options(0.0, 0.4);
    spoil(&options);
    expect_failure(StatusCode::kArgument, {part}, [&] { synthesise_snapshot(path, options); });
    CHECK(std::filesystem::is_empty(folder.path()));
  };
  refuse("shape 'none'", [](auto *options) { options->shape = "none"; });
  refuse("n_layers is 0", [](auto *options) { options->n_layers = 0; });
  refuse("n_layers is 1001", [](auto *options) { options->n_layers = 1001; });
  refuse("skew is -0.1", [](auto *options) { options->skew = -0.1; });
  refuse("skew is 2.1", [](auto *options) { options->skew = 2.1; });
  refuse("skew is nan", [](auto *options) { options->skew = std::nan(""); });
  refuse("repeat is 1.1", [](auto *options) { options->repeat = 1.1; });
  refuse("repeat is nan", [](auto *options) { options->repeat = std::nan(""); });
  refuse("by chance", [](auto *options) { options->repeat = 0.05; });
  refuse("number of threads is 0", [](auto *options) { options->n_threads = 0; });
}

TEST_CASE("a destination that exists is refused and left alone") {
  const TemporaryFolder folder;
  folder.write("model/config.json", "mine");
  expect_failure(StatusCode::kArgument, {"exists"},
                 [&] { synthesise_snapshot(folder.path() + "/model", tiny_options(0.0, 0.4)); });
  const std::map<std::string, std::string> mine = {{"config.json", "mine"}};
  CHECK(read_folder(folder.path() + "/model") == mine);
  CHECK_FALSE(std::filesystem::exists(partial_directory(folder.path() + "/model")));
}

}  // namespace
