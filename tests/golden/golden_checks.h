// SPDX-License-Identifier: Apache-2.0
//
// What every form of a golden model must satisfy in float mode. `path` is the snapshot to open: the
// case's own folder, or the same weights in another form.

#pragma once

#include <string>

#include "tests/golden/golden_case.h"

namespace colibri::test {

// Logits within the case's tolerance, router choices and selected positions equal, for every kernel
// set that this CPU can run.
void check_passes(const GoldenCase &golden, const std::string &path);
// The residual stream after every layer.
void check_hidden(const GoldenCase &golden, const std::string &path);
// Greedy continuations of all prompts, for every kernel set that this CPU can run.
void check_continuations(const GoldenCase &golden, const std::string &path);
// Logits with the epsilon of the other norms in the latent norms, where the case has them.
void check_latent_eps(const GoldenCase &golden, const std::string &path);

}  // namespace colibri::test
