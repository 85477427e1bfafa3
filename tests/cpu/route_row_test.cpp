// SPDX-License-Identifier: Apache-2.0
//
// The router's choice: check values of the architecture's description, ties, groups, odd numbers.

#include "cpu/route_row.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/catch.h"

using namespace colibri;

namespace {

struct Choice {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// Routes one row whose sigmoids are given; for the other kinds their softmax, or the logits.
Choice route(const std::vector<float> &values, const std::vector<float> &bias, RouteArgs args) {
  args.n_rows = 1;
  args.n_experts = static_cast<uint32_t>(values.size());
  args.bias = bias.empty() ? nullptr : bias.data();
  Choice choice;
  choice.experts.resize(args.top_k);
  choice.weights.resize(args.top_k);
  args.experts = choice.experts.data();
  args.weights = choice.weights.data();
  std::vector<float> scratch(cpu::route_scratch_floats(values.size()));
  std::copy(values.begin(), values.end(), scratch.begin());
  cpu::route_row(args, 0, scratch.data());
  return choice;
}

RouteArgs top(uint32_t k, RouterKind kind = RouterKind::kSigmoid) {
  RouteArgs args;
  args.kind = kind;
  args.top_k = k;
  return args;
}

using Ids = std::vector<int32_t>;

}  // namespace

TEST_CASE("the bias chooses and the sigmoid weighs") {
  RouteArgs args = top(2);
  args.scale = 2.5f;
  const Choice choice =
      route({0.549834f, 0.268941f, 0.817574f, 0.668188f}, {0.0f, 2.0f, -1.0f, 0.1f}, args);
  REQUIRE(choice.experts == Ids{1, 3});
  REQUIRE(choice.weights[0] == Approx(0.717461).epsilon(1e-5));
  REQUIRE(choice.weights[1] == Approx(1.782539).epsilon(1e-5));
}

TEST_CASE("weights are only divided by their sum if asked") {
  RouteArgs args = top(1);
  args.normalises = false;
  args.scale = 2.0f;
  REQUIRE(route({0.25f, 0.5f}, {0.0f, 0.0f}, args).weights[0] == 1.0f);
}

TEST_CASE("equal scores go to the lower expert") {
  const std::vector<float> same(6, 0.5f);
  const std::vector<float> none(6, 0.0f);
  REQUIRE(route(same, none, top(3)).experts == Ids{0, 1, 2});
  RouteArgs args = top(2);
  args.n_groups = 3;
  args.n_top_groups = 2;
  REQUIRE(route(same, none, args).experts == Ids{0, 1});
}

TEST_CASE("experts of rejected groups are never chosen") {
  RouteArgs args = top(3);
  args.n_groups = 4;
  args.n_top_groups = 2;
  // Sums of the two best: 1.0, 1.1, 0.9, 1.2: groups 1 and 3 stay, though expert 4 alone is the
  // best.
  const std::vector<float> sigmoids = {0.5f, 0.5f, 0.6f, 0.5f, 0.9f, 0.0f, 0.7f, 0.5f};
  REQUIRE(route(sigmoids, std::vector<float>(8, 0.0f), args).experts == Ids{2, 3, 6});
}

TEST_CASE("a rejected group stays rejected when kept scores are negative") {
  RouteArgs args = top(2);
  args.n_groups = 2;
  args.n_top_groups = 1;
  const std::vector<float> bias = {-1.0f, -1.0f, -2.0f, -2.0f};
  REQUIRE(route({0.1f, 0.1f, 0.9f, 0.1f}, bias, args).experts == Ids{0, 1});
}

TEST_CASE("groups of one expert count their only score") {
  RouteArgs args = top(1);
  args.n_groups = 3;
  args.n_top_groups = 1;
  REQUIRE(route({0.2f, 0.7f, 0.3f}, {0.0f, 0.0f, 0.0f}, args).experts == Ids{1});
}

TEST_CASE("NaN scores lose, and distinct experts come out even if all are NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(route({nan, 0.1f, nan, 0.2f}, {0, 0, 0, 0}, top(2)).experts == Ids{1, 3});
  REQUIRE(route({nan, nan, nan}, {0, 0, 0}, top(2)).experts == Ids{0, 1});
}

TEST_CASE("without a selection bias the sigmoids choose") {
  REQUIRE(route({0.1f, 0.9f, 0.3f}, {}, top(2)).experts == Ids{1, 2});
}

TEST_CASE("a softmax router keeps probabilities or divides them by their sum") {
  // The softmax of 0.2, -1.0, 1.5, 0.7.
  const std::vector<float> p = {0.151075f, 0.045503f, 0.554340f, 0.249081f};
  RouteArgs args = top(2, RouterKind::kSoftmax);
  args.normalises = false;
  const Choice kept = route(p, {}, args);
  REQUIRE(kept.experts == Ids{2, 3});
  REQUIRE(kept.weights == std::vector<float>{p[2], p[3]});
  args.normalises = true;
  args.scale = 2.0f;
  const Choice normalised = route(p, {}, args);
  REQUIRE(normalised.experts == Ids{2, 3});
  REQUIRE(normalised.weights[0] == Approx(2 * 0.689974).epsilon(1e-5));
  REQUIRE(normalised.weights[1] == Approx(2 * 0.310026).epsilon(1e-5));
}

TEST_CASE("a softmax over the chosen logits adds up to one whatever `normalises` says") {
  for (const bool normalises : {false, true}) {
    RouteArgs args = top(2, RouterKind::kSoftmaxOfChosen);
    args.normalises = normalises;
    const Choice choice = route({0.2f, -1.0f, 1.5f, 0.7f}, {}, args);
    REQUIRE(choice.experts == Ids{2, 3});
    REQUIRE(choice.weights[0] == Approx(0.689974).epsilon(1e-5));
    REQUIRE(choice.weights[1] == Approx(0.310026).epsilon(1e-5));
  }
}

TEST_CASE("the selection bias belongs to the sigmoid router alone") {
  const std::vector<float> bias = {5.0f, 0.0f, 0.0f};
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSoftmaxOfChosen}) {
    REQUIRE(route({0.1f, 0.3f, 0.6f}, bias, top(1, kind)).experts == Ids{2});
  }
}

TEST_CASE("logits choose where their rounded probabilities are equal") {
  const float close = std::nextafter(40.0f, 41.0f);
  const Choice choice = route({40.0f, close, 0.0f}, {}, top(1, RouterKind::kSoftmaxOfChosen));
  REQUIRE(choice.experts == Ids{1});
  REQUIRE(choice.weights[0] == 1.0f);
}

TEST_CASE("ties, NaN and infinity are dealt with alike by every kind") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSoftmaxOfChosen}) {
    REQUIRE(route(std::vector<float>(6, 0.25f), {}, top(3, kind)).experts == Ids{0, 1, 2});
    REQUIRE(route({nan, 0.1f, nan, 0.2f}, {}, top(2, kind)).experts == Ids{1, 3});
    REQUIRE(route({nan, nan, nan}, {}, top(2, kind)).experts == Ids{0, 1});
  }
  const RouteArgs chosen = top(2, RouterKind::kSoftmaxOfChosen);
  const Choice with_nan = route({nan, 0.5f, nan}, {}, chosen);
  REQUIRE(with_nan.experts == Ids{0, 1});
  REQUIRE(std::isnan(with_nan.weights[0]));
  const Choice lowest = route({-infinity, 2.0f, -infinity}, {}, chosen);
  REQUIRE(lowest.experts == Ids{0, 1});
  REQUIRE(lowest.weights == std::vector<float>{0.0f, 1.0f});
}
