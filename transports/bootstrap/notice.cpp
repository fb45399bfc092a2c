#include "transports/bootstrap/notice.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace sparsecoll::bootstrap {

namespace {

constexpr char kBetween = '/';
constexpr const char* kDigits = "0123456789abcdef";
constexpr size_t kMostHosts = 8;

template <class Number>
bool parse(std::string_view text, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

std::string_view takePart(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(kBetween));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

Result<Key> readKey(std::string_view digits) {
  std::array<std::byte, kKeyBytes> bytes{};
  const Wiping wiped(bytes);
  bool right = digits.size() == 2 * bytes.size();
  for (size_t i = 0; right && i < bytes.size(); ++i) {
    uint8_t value = 0;
    right = parse(digits.substr(2 * i, 2), value, 16);
    bytes[i] = static_cast<std::byte>(value);
  }
  if (!right) return fail(sparsecollCorrupted, "the launcher hands on no key of rank 0's");
  return Key(bytes);
}

}  // namespace

Result<Notice> makeNotice(const char* interfaceName, uint16_t firstPort, uint16_t ports) {
  SC_TRY(cryptoReady());
  std::vector<Address> own;
  if (interfaceName[0] == '\0') {
    SC_TRY(own, addressesHere());
  } else {
    SC_TRY(const Address named, addressOf(interfaceName));
    own.push_back(named);
  }
  Notice made{{"", firstPort, ports}, {}};
  for (size_t i = 0; i < std::min(own.size(), kMostHosts); ++i) {
    if (i > 0) made.place.host += ',';
    made.place.host += own[i].host().view();
  }
  if (firstPort == 0) {
    SC_TRY(const Fd free, bindTo(own.front()));
    SC_TRY(const Address at, localAddress(free));
    made.place.firstPort = at.port;
    made.place.ports = static_cast<uint16_t>(std::min<int>(ports, 65536 - at.port));
  }
  std::array<std::byte, kKeyBytes> secret;
  const Wiping wiped(secret);
  fillRandom(secret);
  made.key = Key(secret);
  return made;
}

std::string writeNotice(const Notice& notice) {
  std::string word;
  for (const std::string& part : {std::to_string(kWireVersion), notice.place.host,
                                  std::to_string(notice.place.firstPort), std::to_string(notice.place.ports)})
    word += part + kBetween;
  for (const std::byte byte : notice.key.bytes()) {
    word += kDigits[static_cast<uint8_t>(byte) >> 4];
    word += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return word;
}

Result<Notice> readNotice(std::string_view word) {
  uint16_t version = 0;
  Notice read;
  const bool versioned = parse(takePart(word), version);
  if (versioned && version != kWireVersion)
    return disagree(0, "version", "rank 0 speaks version {}, this library {}", version, kWireVersion);
  read.place.host = takePart(word);
  const bool placed = parse(takePart(word), read.place.firstPort) && parse(takePart(word), read.place.ports) &&
                      !read.place.host.empty() && read.place.firstPort > 0 && read.place.ports > 0 &&
                      read.place.firstPort + read.place.ports <= 65536;
  if (!versioned || !placed) return fail(sparsecollCorrupted, "the launcher hands on no place of rank 0's");
  SC_TRY(read.key, readKey(word));
  return read;
}

}  // namespace sparsecoll::bootstrap
