#include "collectives/survey.h"

namespace sparsecoll {

Result<Survey> Survey::make(const CollectiveSetup& setup, uint64_t length, double* rows) {
  Survey survey;
  survey.kernels_ = setup.kernels;
  survey.own_ = static_cast<size_t>(setup.transport->rank());
  survey.rowsAt_ = rows;
  survey.rowBytes_ = length * sizeof(double);
  const auto count = static_cast<uint32_t>(length);
  SC_TRY(survey.length_, setup.kernels->allocate(sizeof count, setup.budget));
  setup.kernels->transfer(survey.length_.as<>(), &count, sizeof count, setup.kernels->stream());
  SC_TRY(survey.rows_, FullRound::make(*setup.transport, *setup.kernels, {length, 0, sizeof(double)},
                                       FullRound::Sends::kSameToAll, setup.budget));
  survey.counts_.assign(survey.rows_.ranks(), survey.length_.as<uint32_t>());
  return survey;
}

Status Survey::run(const CollectiveStep& step) {
  const auto rowOf = [&](size_t rank) { return reinterpret_cast<std::byte*>(rowsAt_) + rank * rowBytes_; };
  std::byte* const frame = rows_.frame(*step.operation);
  kernels_->copy(countIn(frame), length_.as<>(), sizeof(uint32_t), step.stream);
  kernels_->copy(entriesIn(frame), rowOf(own_), rowBytes_, step.stream);
  SC_TRY(rows_.run(*step.operation, step.stream, nullptr, counts_));
  for (size_t rank = 0; rank < rows_.ranks(); ++rank)
    if (rank != own_) kernels_->copy(rowOf(rank), entriesIn(rows_.from(rank)), rowBytes_, step.stream);
  return {};
}

}  // namespace sparsecoll
