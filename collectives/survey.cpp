#include "collectives/survey.h"

namespace sparsecoll {

Result<Survey> Survey::make(const CollectiveSetup& setup, uint64_t length, double* rows) {
  const FrameLayout layout{length, 0, sizeof(double)};
  Survey survey;
  survey.kernels_ = setup.kernels;
  survey.transport_ = setup.transport;
  survey.rowsAt_ = rows;
  survey.rowBytes_ = length * sizeof(double);
  const auto count = static_cast<uint32_t>(length);
  SC_TRY(survey.length_, setup.kernels->allocate(sizeof count, setup.budget));
  setup.kernels->copy(survey.length_.as<>(), &count, sizeof count, setup.kernels->stream());
  survey.counts_.assign(static_cast<size_t>(setup.transport->ranks()), survey.length_.as<uint32_t>());
  SC_TRY(survey.window_, setup.transport->makeWindow(2 * layout.capacityBytes(), setup.budget));
  SC_TRY(survey.rows_, FullRound::make(*setup.transport, *setup.kernels, layout, setup.budget));
  return survey;
}

Status Survey::run(const CollectiveStep& step) {
  Operation& operation = *step.operation;
  const FrameExpectation identity = operation.identity();
  const bool withPayload = transport_->checksumsPayload();
  const auto own = static_cast<size_t>(transport_->rank());
  std::byte* const frame = window_->data() + (operation.turn % 2) * rows_.layout().capacityBytes();
  const auto rowOf = [&](size_t rank) { return reinterpret_cast<std::byte*>(rowsAt_) + rank * rowBytes_; };
  kernels_->copy(frame + offsetof(FrameHeader, count), length_.as<>(), sizeof(uint32_t), step.stream);
  kernels_->copy(frame + kFrameHeaderBytes, rowOf(own), rowBytes_, step.stream);
  kernels_->seal({frame, rows_.layout(), identity, nullptr, withPayload}, step.stream);
  SC_TRY(rows_.sameToAll(operation, frame, step.stream));
  SC_TRY(kernels_->open({rows_.frames(), rows_.bytes(), rows_.layout(), identity, nullptr, counts_, withPayload},
                        step.stream));
  for (size_t rank = 0; rank < rows_.frames().size(); ++rank)
    if (rank != own) kernels_->copy(rowOf(rank), rows_.frames()[rank] + kFrameHeaderBytes, rowBytes_, step.stream);
  return {};
}

}  // namespace sparsecoll
