// SPDX-License-Identifier: Apache-2.0
#include "examples/common/stop.h"

#include <csignal>

namespace examples {

namespace {

volatile std::sig_atomic_t caughtSignal = 0;

void note(int signal) { caughtSignal = signal; }

// SA_RESETHAND: after the first signal the default action is back.
void install(void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  caughtSignal = 0;
  install(note, static_cast<int>(SA_RESETHAND) | SA_RESTART);
}

StopSignal::~StopSignal() { install(SIG_DFL, 0); }

int StopSignal::caught() { return caughtSignal; }

}  // namespace examples
