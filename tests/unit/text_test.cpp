// Texts of bounded length, as failures hold them.
#include "core/text.h"

#include "tests/support/catch.h"

#include <string>

namespace sparsecoll {

TEST_CASE("a text holds one letter less than it has bytes, however it was made") {
  const std::string many(40, 'x');
  const std::string seven(7, 'x');
  const Text<8> given(many.c_str());
  const Text<8> formatted = Text<8>::format("{}", many);
  Text<8> appended = "xxx";
  appended.append("{}{}", "xx", many);
  for (const Text<8>& text : {given, formatted, appended}) {
    CHECK(std::string(text.c_str()) == seven);
    CHECK(text.view() == seven);
    CHECK_FALSE(text.empty());
  }
  appended.append("{}", many);
  CHECK(appended == seven);
  CHECK(Text<8>() == "");
  CHECK(Text<8>().empty());
  CHECK(Text<8>("a") == "a");
}

}  // namespace sparsecoll
