// SPDX-License-Identifier: Apache-2.0
#include "proto/printable.h"

#include <gtest/gtest.h>

#include <random>

namespace farcall {
namespace {

TEST(Printable, LeavesWhatIsSeenAsItIs) {
  EXPECT_EQ(Printable("gpu-host_7 (a|b) \"x\" C:\\n"), "gpu-host_7 (a|b) \"x\" C:\\n");
  EXPECT_EQ(Printable("Zo\xC3\xAB \xE5\xB1\xB1\xF0\x9F\x98\x80"),
            "Zo\xC3\xAB \xE5\xB1\xB1\xF0\x9F\x98\x80");
}

TEST(Printable, EscapesWhatMovesTheCursorOrEndsTheLine) {
  EXPECT_EQ(Printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(Printable("\x1b[2J\x07\x7f"), "\\x1b[2J\\x07\\x7f");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\xC2\x9B"), "\\u{9b}");        // CSI as one character
  EXPECT_EQ(Printable("\xE2\x80\xA8"), "\\u{2028}");  // line separator
  EXPECT_EQ(Printable("a\xE2\x80\xAE"
                      "b"),
            "a\\u{202e}b");  // right to left
  EXPECT_EQ(Printable("\xE2\x81\xA6"), "\\u{2066}");
  EXPECT_EQ(Printable("\xEF\xBB\xBF"), "\\u{feff}");
}

TEST(Printable, EscapesWhatIsNoUtf8ByteByByte) {
  EXPECT_EQ(Printable("\xFF"), "\\xff");
  EXPECT_EQ(Printable("\xC3"), "\\xc3");                             // cut short
  EXPECT_EQ(Printable("\xC0\xAF"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(Printable("\xE0\x80\xAF"), "\\xe0\\x80\\xaf");           // overlong
  EXPECT_EQ(Printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above the last
}

TEST(Printable, CutsWhatIsTooLongBetweenCharacters) {
  EXPECT_EQ(Printable("abcdef", 6), "abcdef");
  EXPECT_EQ(Printable("abcdefg", 6), "abc...");
  EXPECT_EQ(Printable("ab\n\n\n", 7), "ab\\n...");
  EXPECT_EQ(Printable("a\xE5\xB1\xB1\xE5\xB1\xB1\xE5\xB1\xB1", 8), "a\xE5\xB1\xB1...");
  EXPECT_EQ(Printable(std::string(300'000, '\n')).size(), kMaxShownBytes - 1);  // whole escapes
}

TEST(Printable, ANoiseOfBytesBecomesOneLineOfBoundedLengthThatStaysAsItIs) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string noise(random() % 64, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    const std::string shown = Printable(noise);
    EXPECT_LE(shown.size(), kMaxShownBytes);
    for (char c : shown) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
    EXPECT_EQ(Printable(shown), shown);
  }
}

TEST(IsUtf8, KnowsOverlongFormsSurrogatesAndTornCharacters) {
  for (const char* good : {"", "a", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) EXPECT_TRUE(IsUtf8(good));
  for (const char* bad :
       {"\xFF", "a\x80", "\xC0\xAF", "\xED\xA0\x80", "\xE2\x82", "\xF4\x90\x80\x80"})
    EXPECT_FALSE(IsUtf8(bad)) << bad;
}

TEST(AsciiJson, EscapesAllBeyondAscii) {
  EXPECT_EQ(AsciiJson("{\"a\": \"\xE2\x80\xAE\xF0\x9F\x98\x80\"}\n"),
            "{\"a\": \"\\u202e\\ud83d\\ude00\"}\n");
}

}  // namespace
}  // namespace farcall
