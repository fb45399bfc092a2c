#include "src/agreement.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstring>

#include "collectives/full_round.h"
#include "core/bytes.h"

namespace sparsecoll {

namespace {

// A record is sent as a list of u32 "indices": own number, number of fields, fields, hash of what.
constexpr uint64_t kMostWords = 2 * (kMostAgreedFields + 3);
constexpr FrameLayout kLayout{kMostWords, 4, 0};

using Record = std::array<uint64_t, kMostWords / 2>;

Record recordOf(const char* what, std::span<const Agreed> fields, uint64_t own) {
  Record record{own, hashOf(what, {}), fields.size()};
  for (size_t f = 0; f < fields.size(); ++f) record[3 + f] = fields[f].bits;
  return record;
}

Status differs(int rank, const char* field, uint64_t theirs, uint64_t first) {
  return Status(
      Failure{sparsecollMismatch, rank, field,
              fmt::format("rank {} has another {} than rank 0 (bits {:#x} and {:#x})", rank, field, theirs, first)});
}

Status compare(int rank, const Record& theirs, const Record& first, std::span<const Agreed> fields) {
  if (theirs[1] != first[1] || theirs[2] != first[2]) return differs(rank, "order", theirs[1], first[1]);
  for (size_t f = 0; f < fields.size() && f < theirs[2]; ++f)
    if (theirs[3 + f] != first[3 + f]) return differs(rank, fields[f].name, theirs[3 + f], first[3 + f]);
  return {};
}

Result<Record> readRecord(const std::byte* frame, uint64_t bytes) {
  const FrameHeader header = readHeader(frame);
  Reader reader({frame + kFrameHeaderBytes, std::min(bytes - kFrameHeaderBytes, header.count * sizeof(uint32_t))});
  const uint64_t values = header.count / 2;
  Record record{};
  if (header.count % 2 != 0 || values < 3 || values > record.size())
    return fail(sparsecollCorrupted, "agreement record of {} words", header.count);
  for (uint64_t i = 0; i < values; ++i) {
    SC_TRY(record[i], reader.read<uint64_t>());
  }
  if (record[2] != values - 3) return fail(sparsecollCorrupted, "agreement record is damaged");
  return record;
}

}  // namespace

uint64_t agreementWindowBytes() { return 2 * kLayout.capacityBytes(); }

uint64_t hashOf(const char* what, std::span<const Agreed> fields) {
  uint64_t hash = XXH3_64bits(what, std::strlen(what));
  for (const Agreed& field : fields) {
    hash = XXH3_64bits_withSeed(field.name, std::strlen(field.name), hash);
    hash = XXH3_64bits_withSeed(&field.bits, sizeof field.bits, hash);
  }
  return hash;
}

Result<std::vector<uint64_t>> agree(Communicator& comm, const char* what, std::span<const Agreed> fields,
                                    uint64_t own) {
  if (fields.size() > kMostAgreedFields) return fail(sparsecollInternalError, "{} fields to agree on", fields.size());
  const Record record = recordOf(what, fields, own);
  SC_TRY(auto round, FullRound::make(comm.transport(), comm.kernels(), kLayout, comm.budget()));
  std::vector<uint64_t> numbers(static_cast<size_t>(comm.ranks()));
  Operation operation;
  operation.plan = hashOf("agreement", {});
  operation.turn = comm.nextTurn();
  SC_TRY(comm.operate(operation, [&](Operation& op) -> Status {
    std::byte* const frame = comm.agreementWindow().data() + (op.turn % 2) * kLayout.capacityBytes();
    const auto words = static_cast<uint32_t>((3 + fields.size()) * 2);
    const FrameExpectation identity{op.sequence, op.plan};
    std::memcpy(frame + kFrameHeaderBytes, record.data(), words * sizeof(uint32_t));
    std::memcpy(frame + offsetof(FrameHeader, count), &words, sizeof words);
    const bool withPayload = comm.transport().checksumsPayload();
    comm.kernels().seal({frame, kLayout, identity, nullptr, withPayload}, {});
    SC_TRY(round.sameToAll(op, frame, {}));
    SC_TRY(comm.kernels().open({round.frames(), round.bytes(), kLayout, identity, nullptr, {}, withPayload}, {}));
    Record first{};
    for (size_t r = 0; r < round.frames().size(); ++r) {
      SC_TRY(const Record theirs, readRecord(round.frames()[r], round.bytes()[r]));
      if (r == 0) first = theirs;
      SC_TRY(compare(static_cast<int>(r), theirs, first, fields));
      numbers[r] = theirs[0];
    }
    return {};
  }));
  return numbers;
}

}  // namespace sparsecoll
