// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/router_simulation.h"

#include <cmath>
#include <numeric>
#include <string>

#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

const std::vector<RouterShape> kRouters = {{128, 8}, {8, 2}, {32, 4}};

std::vector<float> no_biases(const RouterShape &router) {
  return std::vector<float>(router.n_experts, 0.0f);
}

TEST_CASE("target frequencies fall as a power of the rank, up to a largest one") {
  for (const RouterShape &router : kRouters) {
    for (const double skew : {0.0, 0.3, 1.0, 2.0}) {
      INFO(router.n_experts << " experts, skew " << skew);
      const std::vector<double> found = target_frequencies(router, skew);
      REQUIRE(found.size() == router.n_experts);
      CHECK(std::accumulate(found.begin(), found.end(), 0.0) == Approx(router.n_chosen));
      for (size_t r = 0; r + 1 < found.size(); ++r) {
        CHECK(found[r] <= kLargestFrequency);
        if (found[r] == kLargestFrequency) continue;
        const double rank = static_cast<double>(r) + 1.0;
        CHECK(found[r + 1] / found[r] == Approx(std::pow((rank + 1.0) / rank, -skew)));
      }
    }
  }
}

TEST_CASE("without skew two unlike tokens have as many experts in common as by chance") {
  for (const RouterShape &router : kRouters) {
    const RouterSimulation simulation(router);
    const double chance = static_cast<double>(router.n_chosen) / router.n_experts;
    INFO(router.n_experts << " experts");
    CHECK(simulation.repeat(no_biases(router), 0.0) == Approx(chance).margin(0.015));
    CHECK(simulation.repeat(no_biases(router), 1.0) == 1.0);
  }
}

TEST_CASE("the more alike two tokens are, the more experts they have in common") {
  const RouterSimulation simulation({32, 4});
  double last = 0.0;
  for (const double correlation : {0.0, 0.2, 0.5, 0.8, 0.95, 1.0}) {
    const double found = simulation.repeat(no_biases({32, 4}), correlation);
    CHECK(found > last);
    last = found;
  }
}

TEST_CASE("biases are found that make experts as popular as wanted") {
  for (const RouterShape &router : kRouters) {
    const RouterSimulation simulation(router);
    for (const double skew : {0.3, 1.0, 2.0}) {
      INFO(router.n_experts << " experts, skew " << skew);
      const std::vector<double> wanted = target_frequencies(router, skew);
      const std::vector<float> biases = simulation.find_biases(wanted);
      const std::vector<double> found = simulation.frequencies(biases);
      for (size_t r = 0; r < found.size(); ++r) {
        CHECK(std::isfinite(biases[r]));
        CHECK(found[r] == Approx(wanted[r]).margin(0.015));
      }
    }
  }
}

TEST_CASE("equally popular experts have the same bias") {
  const RouterSimulation simulation({128, 8});
  const std::vector<float> biases = simulation.find_biases(target_frequencies({128, 8}, 0.0));
  for (const float bias : biases) CHECK(bias == biases[0]);
}

TEST_CASE("a design has the repeat that was asked for") {
  for (const RouterShape &router : kRouters) {
    const RouterSimulation simulation(router);
    for (const double repeat : {0.5, 0.9, 1.0}) {
      INFO(router.n_experts << " experts, repeat " << repeat);
      const RoutingDesign design = design_routing(router, 0.5, repeat);
      CHECK(design.correlation >= 0.0);
      CHECK(design.correlation <= 1.0);
      CHECK(simulation.repeat(design.biases, design.correlation) == Approx(repeat).margin(0.005));
    }
  }
}

TEST_CASE("a repeat below what chance gives is refused with the smallest one, which is taken") {
  for (const RouterShape &router : kRouters) {
    try {
      design_routing(router, 1.5, 0.01);
      FAIL("nothing was refused");
    } catch (const Error &error) {
      CHECK(error.status().code() == StatusCode::kArgument);
      const std::string message = error.what();
      INFO(message);
      CHECK(message.find("repeat is 0.01") != std::string::npos);
      const std::string before = "a repeat of ";
      const size_t at = message.find(before);
      REQUIRE(at != std::string::npos);
      const double least = std::stod(message.substr(at + before.size()));
      CHECK(least > static_cast<double>(router.n_chosen) / router.n_experts);
      CHECK_NOTHROW(design_routing(router, 1.5, least));
      expect_failure(StatusCode::kArgument, {"by chance"},
                     [&] { design_routing(router, 1.5, least - 0.002); });
    }
  }
}

}  // namespace
