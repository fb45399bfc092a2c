// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a wish to stop soon.
#pragma once

namespace examples {

/// While it lives, the first SIGINT or SIGTERM is only noted; the second one ends the process as usual. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal's number, 0 before there is one. Any thread.
  static int caught();
};

}  // namespace examples
