// SPDX-License-Identifier: Apache-2.0
//
// The colibri command: reads the command line, runs one subcommand, turns failures into exit codes.
//
// Exit codes: 0 done; 1 the run failed; 2 the command line is wrong; 130 ended by Ctrl-C. For 1 and
// 2 one line on stderr says what to do.

#include <exception>
#include <new>
#include <string>
#include <vector>

#include "examples/colibri/colibri_raii.h"
#include "examples/colibri/commands.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitBadUse = 2;

constexpr const char *kExamples = R"(Examples:
  colibri generate "Once upon a time"
  colibri chat
  colibri generate --model ~/models/glm-5.2-int4 --ram-budget 24G --tokens 200 "The colibri is"
  colibri plan ~/models/glm-5.2-int4 --slots 4 --context 8192 --ram-budget 24G
  colibri generate --model FOLDER --ids 1,2,3 --json
  colibri convert ~/models/glm-5.2 ~/models/glm-5.2-packed

Without a model, the small demonstration model that comes with the command is used.
Exit codes: 0 done, 1 the run failed, 2 the command line is wrong, 130 ended by Ctrl-C.)";

// Names the subcommand whose help is wanted: the last one that was recognised.
std::string help_hint(const CLI::App &app) {
  std::string command = "colibri";
  for (const CLI::App *at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    command += " " + at->get_name();
  }
  return command + " --help";
}

// What is wrong with a command line that no subcommand was found in.
std::string describe_missing_subcommand(const CLI::App &app) {
  std::string names;
  for (const CLI::App *sub : app.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + sub->get_name();
  }
  const std::vector<std::string> unknown = app.remaining();
  if (unknown.empty()) return "a subcommand is missing; the subcommands are " + names;
  if (unknown.front().starts_with('-')) {
    return "'" + unknown.front() + "' needs a subcommand before it; the subcommands are " + names;
  }
  return "'" + unknown.front() + "' is no subcommand; the subcommands are " + names;
}

int run_guarded(const Run &run) {
  try {
    return run();
  } catch (const Interrupted &) {
    return kExitInterrupted;
  } catch (const CallFailure &failure) {
    if (failure.status() == COLIBRI_E_CANCELLED) return kExitInterrupted;
    print_error(failure.what());
    return failure.status() == COLIBRI_E_ARGUMENT ? kExitBadUse : kExitFailed;
  } catch (const CLI::ParseError &error) {
    print_error(error.what());
    return kExitBadUse;
  } catch (const std::bad_alloc &) {
    print_error("out of memory; lower --ram-budget or --context");
  } catch (const std::exception &error) {
    print_error(error.what());
  }
  return kExitFailed;
}

int run_command_line(int n_arguments, char **arguments) {
  CLI::App app(
      "Runs mixture-of-experts language models whose experts live on disk, in RAM, or both.",
      "colibri");
  app.set_version_flag("--version", std::string("colibri ") + colibri_version());
  app.require_subcommand(1);
  app.footer(kExamples);
  Run run;
  add_generate(app, &run);
  add_chat(app, &run);
  add_inspect(app, &run);
  add_plan(app, &run);
  add_tokenize(app, &run);
  add_detokenize(app, &run);
  add_logits(app, &run);
  add_perplexity(app, &run);
  add_bench(app, &run);
  add_convert(app, &run);
  add_verify(app, &run);
  try {
    app.parse(n_arguments, arguments);
  } catch (const CLI::Success &request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError &error) {
    const bool has_subcommand = !app.get_subcommands().empty();
    print_error((has_subcommand ? error.what() : describe_missing_subcommand(app)) + "; see " +
                help_hint(app));
    return kExitBadUse;
  }
  catch_interrupts();
  return run_guarded(run);
}

}  // namespace
}  // namespace colibri::command

int main(int n_arguments, char **arguments) {
  return colibri::command::run_command_line(n_arguments, arguments);
}
