// Dense sums that the engine forms itself.
#include "transports/common.h"
#include "transports/engine/dense.h"

namespace sparsecoll::engine {

// Whether what the engine sums lies beside the vectors, which the engine may yet leave to the library as they are:
// where out keeps what it holds, where in is scaled, and where some ranks sum in place. The same on all ranks, as the
// pieces have to be.
bool DenseSum::isStaged() const { return args_.accumulate || !args_.inputScale.isOne() || !alike_; }

// The engine sums a piece at a time. Where this rank's rate is limited, a piece begins once the time of what a ring
// would send for it has passed.
Status DenseSum::startPiece() {
  const uint64_t element = elementBytes(args_.type);
  const uint64_t most = isStaged() ? staging_.bytes() : SPARSECOLL_ENGINE_MESSAGE_BYTES;
  pieceLength_ = std::min(args_.n - pieceAt_, most / element);
  const auto ranks = static_cast<uint64_t>(ranks_);
  pieceStarted_ = state_.port.maySum(2 * (ranks - 1) * pieceLength_ / ranks * element);
  if (!pieceStarted_) return {};
  const auto* in = static_cast<const std::byte*>(args_.in) + pieceAt_ * element;
  std::byte* to = static_cast<std::byte*>(args_.out) + pieceAt_ * element;
  if (isStaged()) {
    to = staging_.as<>();
    reshape(*state_.setup.kernels, {in, to, args_.type, pieceLength_, args_.inputScale}, stream_);
    in = to;
  }
  const Status started = state_.port.startSum(in, to, pieceLength_, args_.type);
  if (pieceAt_ != 0 || started.result() != sparsecollUnsupported) return Status(started.failure());
  byEngine_ = false;
  return {};
}

Result<bool> DenseSum::proceedPiece(bool& moved) {
  if (!pieceStarted_) {
    SC_TRY(startPiece());
    moved = moved || pieceStarted_;
    return false;
  }
  const Outcome outcome = state_.port.testSum();
  if (outcome == Outcome::kFailed) return fail(sparsecollSystemError, "the engine's sum failed");
  if (outcome == Outcome::kUnderWay) return false;
  moved = true;
  auto* const out = static_cast<std::byte*>(args_.out) + pieceAt_ * elementBytes(args_.type);
  const std::byte* const sum = isStaged() ? staging_.as<>() : out;
  const bool plain = args_.finish.divisor == 1 && args_.finish.scale.isOne() && args_.nonFinite == nullptr;
  if (isStaged() || !plain)
    reshape(*state_.setup.kernels, {sum, out, args_.type, pieceLength_, 1, args_.finish, args_.accumulate, &nonFinite_},
            stream_);
  pieceAt_ += pieceLength_;
  if (pieceAt_ == args_.n) return true;
  SC_TRY(startPiece());
  return false;
}

}  // namespace sparsecoll::engine
