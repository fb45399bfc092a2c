#pragma once

namespace sparsecoll::engine {

enum Tag : int {
  kEnvelopes,      // one after the other from each peer; receives for the next ones are always posted
  kFrames,         // too large for the envelopes right before them; who takes an envelope makes a place for its frame
  kContributions,  // to dense sums, which are announced by envelopes
  kSums,
  kNotices,  // a rank's end, past what it has sent before, and as soon as it can be sent
};

}  // namespace sparsecoll::engine
