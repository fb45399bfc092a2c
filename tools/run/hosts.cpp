#include "tools/run/hosts.h"

#include <charconv>
#include <fstream>
#include <sstream>

namespace {

constexpr int kMostSlots = 256;

bool readSlots(std::string_view text, int& slots) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  return error == std::errc() && end == text.data() + text.size() && slots >= 1 && slots <= kMostSlots;
}

std::string refused(std::string_view text, const char* why) {
  std::string line(1, '\'');
  return line.append(text).append("' ").append(why);
}

// "name" or "name:slots". An address of IPv6 has more than one colon and no slots.
std::string readHost(std::string_view text, std::vector<Host>& hosts) {
  Host host;
  const size_t colon = text.find(':');
  const bool hasSlots = colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos;
  host.name = text.substr(0, hasSlots ? colon : text.size());
  if (host.name.empty() || host.name[0] == '-') return refused(text, "is no host");
  if (hasSlots && !readSlots(text.substr(colon + 1), host.slots))
    return refused(text, "has slots that are no number from 1 to 256");
  hosts.push_back(std::move(host));
  return "";
}

std::string readLine(const std::string& line, std::vector<Host>& hosts) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string word;
  if (!(words >> word)) return "";
  if (std::string wrong = readHost(word, hosts); !wrong.empty()) return wrong;
  constexpr std::string_view kSlots = "slots=";
  while (words >> word)
    if (!word.starts_with(kSlots) || !readSlots(std::string_view(word).substr(kSlots.size()), hosts.back().slots))
      return refused(word, "is not slots=NUMBER, 1 to 256, and nothing else may follow a host");
  return "";
}

}  // namespace

std::string readHostList(std::string_view text, std::vector<Host>& hosts) {
  while (true) {
    const size_t comma = text.find(',');
    if (std::string wrong = readHost(text.substr(0, comma), hosts); !wrong.empty()) return wrong;
    if (comma == std::string_view::npos) return "";
    text.remove_prefix(comma + 1);
  }
}

std::string readHostFile(const char* path, std::vector<Host>& hosts) {
  std::ifstream file(path);
  if (!file) return std::string(path) + ": no such file";
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (std::string wrong = readLine(line, hosts); !wrong.empty())
      return std::string(path) + " line " + std::to_string(number) + ": " + wrong;
  }
  return hosts.empty() ? std::string(path) + ": no host in it" : "";
}

std::vector<int> placed(const std::vector<Host>& hosts, int ranks) {
  std::vector<int> places;
  for (size_t host = 0; host < hosts.size(); ++host)
    for (int slot = 0; slot < hosts[host].slots && static_cast<int>(places.size()) < ranks; ++slot)
      places.push_back(static_cast<int>(host));
  return places;
}
