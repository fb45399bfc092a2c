#include "src/agreement.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "core/bytes.h"
#include "host/host_kernels.h"
#include "src/communicator.h"
#include "src/names.h"

namespace sparsecoll {

namespace {

// A record is sent as a list of u32 "indices": own number, number of fields, fields, hash of what.
constexpr uint64_t kMostWords = 2 * (kMostAgreedFields + 3);
constexpr FrameLayout kRecordLayout{kMostWords, 4, 0};

using Record = std::array<uint64_t, kMostWords / 2>;

Record recordOf(const char* what, std::span<const AgreedField> fields, uint64_t own) {
  Record record{own, hashOf(what, {}), fields.size()};
  for (size_t f = 0; f < fields.size(); ++f) record[3 + f] = fields[f].bits;
  return record;
}

using Value = Text<112>;  // all flags at once fit

Value flagsIn(uint64_t bits) {
  Value text;
  for (uint32_t flag = 1; flag != 0; flag <<= 1) {
    if ((bits & flag) == 0) continue;
    const char* const name = flagName(flag);
    text.append("{}{}", text.empty() ? "" : "|", name != nullptr ? name : "?");
  }
  return text.empty() ? Value("none") : text;
}

Value shown(const AgreedField& field, uint64_t bits) {
  switch (field.as) {
    case Shown::kReal:
      return Value::format("{}", std::bit_cast<double>(bits));
    case Shown::kFlags:
      return flagsIn(bits);
    case Shown::kName:
      if (const char* const name = field.nameOf(static_cast<int32_t>(bits)); name != nullptr) return name;
      break;
    case Shown::kNumber:
    case Shown::kHash:
      break;
  }
  return Value::format("{}", bits);
}

Status differs(int rank, const AgreedField& field, uint64_t theirs, uint64_t first) {
  if (field.as == Shown::kHash)
    return disagree(rank, field.name, "{}: not the same on rank 0 and rank {}", field.name, rank);
  return disagree(rank, field.name, "{}: {} on rank 0, {} on rank {}", field.name, shown(field, first),
                  shown(field, theirs), rank);
}

Status compare(int rank, const Record& theirs, const Record& first, const char* what,
               std::span<const AgreedField> fields) {
  const uint64_t common = std::min({theirs[2], first[2], uint64_t{fields.size()}});
  if (theirs[1] == first[1])
    for (size_t f = 0; f < common; ++f)
      if (theirs[3 + f] != first[3 + f]) return differs(rank, fields[f], theirs[3 + f], first[3 + f]);
  if (theirs[1] == first[1] && theirs[2] == first[2]) return {};
  return disagree(rank, "order", "order: rank {} is in another call than rank 0; this rank is in {}", rank, what);
}

// Numbers among the fields that people know a call by.
OperationLabel labelOf(const char* what, std::span<const AgreedField> fields) {
  OperationLabel label{what};
  for (const AgreedField& field : fields) {
    const std::string_view name = field.name;
    if (name == "n") label.n = field.bits;
    if (name == "tag") label.tag = field.bits;
    if (name == "k") label.k = field.bits;
  }
  return label;
}

Result<Record> readRecord(const std::byte* frame) {
  const FrameHeader header = readHeader(frame);
  Reader reader({entriesIn(frame), header.count * sizeof(uint32_t)});
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

Result<AgreementRoom> AgreementRoom::make(Transport& transport, std::shared_ptr<MemorySource> memory,
                                          const std::shared_ptr<MemoryBudget>& budget) {
  AgreementRoom room;
  room.kernels = host::makeHostKernels(host::bestIsa(), std::move(memory));
  SC_TRY(room.round, FullRound::make(transport, *room.kernels, kRecordLayout, FullRound::Sends::kSameToAll, budget));
  room.numbers.resize(static_cast<size_t>(transport.ranks()));
  return room;
}

Result<Agreement> agree(Communicator& comm, const char* what, std::span<const AgreedField> fields, uint64_t own) {
  if (fields.size() > kMostAgreedFields) return fail(sparsecollInternalError, "{} fields to agree on", fields.size());
  const Record record = recordOf(what, fields, own);
  AgreementRoom& room = comm.agreementRoom();
  const OperationLabel label = labelOf(what, fields);
  Operation operation;
  operation.label = &label;
  operation.plan = hashOf("agreement", {});
  operation.turn = ++room.turn;
  operation.onHost = true;
  SC_TRY(comm.operate(operation, [&](Operation& op) -> Status {
    std::byte* const frame = room.round.frame(op);
    const auto words = static_cast<uint32_t>((3 + fields.size()) * 2);
    std::memcpy(entriesIn(frame), record.data(), words * sizeof(uint32_t));
    *countIn(frame) = words;
    SC_TRY(room.round.run(op, {}, nullptr));
    Record first{};
    for (size_t r = 0; r < room.round.ranks(); ++r) {
      SC_TRY(const Record theirs, readRecord(room.round.from(r)));
      if (r == 0) first = theirs;
      SC_TRY(compare(static_cast<int>(r), theirs, first, what, fields));
      room.numbers[r] = theirs[0];
    }
    return {};
  }));
  return Agreement{operation.sequence, room.numbers};
}

Status agreeMade(Communicator& comm, const Status& made) {
  const auto nameOf = [](int32_t failed) { return failed == 0 ? "enough" : "not enough"; };
  const AgreedField outcome[] = {{"memory", made.ok() ? 0u : 1u, Shown::kName, nameOf}};
  Status agreed = agree(comm, "memory", outcome).takeStatusOrOk();
  return made.ok() ? agreed : made;
}

}  // namespace sparsecoll
