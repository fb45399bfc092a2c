// SPDX-License-Identifier: Apache-2.0
// What the programs of recurrent networks have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/lstm/tasks.h"

namespace examples {

// steps: the option for RecurrentOptions.steps, and what it means there.
inline void addOptions(CLI::App& app, RecurrentOptions& options, const char* steps, const char* meaning) {
  app.add_option("--width", options.width, "of embedding and hidden states")->capture_default_str();
  app.add_option("--layers", options.layers, "LSTM layers")->check(CLI::Range(1, 100))->capture_default_str();
  app.add_option("--dropout", options.dropout, "on the embedding and behind every layer")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option(std::string("--") + steps, options.steps, meaning)
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--clip", options.clip, "largest norm of a rank's gradient, 0: any; not with --overlap")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
}

inline void checkOptions(const RecurrentOptions& options, const Settings& settings) {
  if (options.clip > 0 && settings.exchange.overlap)
    throw std::runtime_error("--clip changes gradients that --overlap is sending by then: give --clip 0");
}

inline void describe(const RecurrentOptions& options, const char* steps,
                     std::vector<std::pair<std::string, std::string>>& description) {
  description.emplace_back("width", std::to_string(options.width));
  description.emplace_back("layers", std::to_string(options.layers));
  description.emplace_back("dropout", std::to_string(options.dropout));
  description.emplace_back(steps, std::to_string(options.steps));
  description.emplace_back("clip", std::to_string(options.clip));
}

}  // namespace examples
