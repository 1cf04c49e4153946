// SPDX-License-Identifier: Apache-2.0
// Memory of the thread, counters of all threads, calls, and what threads do together.
#include <algorithm>
#include <utility>

#include "tests/jit/differential/generator.h"

namespace farcall::cpu_device::differential {

namespace {

struct Access {
  const char* type;
  uint32_t bytes;
  const char* registers;  // that may hold it
};
constexpr Access kAccesses[] = {
    {"b8", 1, "hw"},   {"u8", 1, "hwx"}, {"s8", 1, "hwx"}, {"b16", 2, "h"},  {"u16", 2, "hwx"},
    {"s16", 2, "hwx"}, {"b32", 4, "w"},  {"u32", 4, "wx"}, {"s32", 4, "wx"}, {"f32", 4, "w"},
    {"b64", 8, "x"},   {"u64", 8, "x"},  {"s64", 8, "x"},  {"f64", 8, "x"}};

struct Atomic {
  const char* operation;  // with its type
  char width;
  uint32_t bytes;
  char nan;
  bool three;  // cas
};
constexpr Atomic kAtomics[] = {
    {"exch.b32", 'w', 4, 0, false},         {"exch.b64", 'x', 8, 0, false},
    {"cas.b16", 'h', 2, 0, true},           {"cas.b32", 'w', 4, 0, true},
    {"cas.b64", 'x', 8, 0, true},           {"add.u32", 'w', 4, 0, false},
    {"add.s32", 'w', 4, 0, false},          {"add.u64", 'x', 8, 0, false},
    {"add.f32", 'w', 4, 'f', false},        {"add.f64", 'x', 8, 'g', false},
    {"add.noftz.f16", 'h', 2, 'h', false},  {"add.noftz.f16x2", 'w', 4, 'H', false},
    {"add.noftz.bf16", 'h', 2, 'b', false}, {"add.noftz.bf16x2", 'w', 4, 'B', false},
    {"min.u32", 'w', 4, 0, false},          {"max.u32", 'w', 4, 0, false},
    {"min.s32", 'w', 4, 0, false},          {"max.s32", 'w', 4, 0, false},
    {"min.u64", 'x', 8, 0, false},          {"max.u64", 'x', 8, 0, false},
    {"min.s64", 'x', 8, 0, false},          {"max.s64", 'x', 8, 0, false},
    {"inc.u32", 'w', 4, 0, false},          {"dec.u32", 'w', 4, 0, false},
    {"and.b32", 'w', 4, 0, false},          {"or.b32", 'w', 4, 0, false},
    {"xor.b32", 'w', 4, 0, false},          {"and.b64", 'x', 8, 0, false},
    {"or.b64", 'x', 8, 0, false},           {"xor.b64", 'x', 8, 0, false}};

// Operations whose final value no order changes; each has a counter of its own.
constexpr Atomic kCounted[] = {
    {"add.u32", 'w', 4, 0, false}, {"add.s32", 'w', 4, 0, false}, {"add.u64", 'x', 8, 0, false},
    {"min.u32", 'w', 4, 0, false}, {"max.u32", 'w', 4, 0, false}, {"min.s32", 'w', 4, 0, false},
    {"max.s32", 'w', 4, 0, false}, {"min.u64", 'x', 8, 0, false}, {"max.u64", 'x', 8, 0, false},
    {"min.s64", 'x', 8, 0, false}, {"max.s64", 'x', 8, 0, false}, {"and.b32", 'w', 4, 0, false},
    {"or.b32", 'w', 4, 0, false},  {"xor.b32", 'w', 4, 0, false}, {"and.b64", 'x', 8, 0, false},
    {"or.b64", 'x', 8, 0, false},  {"xor.b64", 'x', 8, 0, false}, {"inc.u32", 'w', 4, 0, false},
    {"dec.u32", 'w', 4, 0, false}};
static_assert(std::size(kCounted) <= kCounters);

const char* BitsType(uint32_t bytes) {
  return bytes == 1 ? "b8" : bytes == 2 ? "b16" : bytes == 4 ? "b32" : "b64";
}

}  // namespace

// An address of `bytes` inside the area, aligned; half of them computed from data.
std::string Generator::OwnAddress(const std::string& base, uint32_t area_bytes, uint32_t bytes) {
  uint32_t places = area_bytes / bytes;  // a power of two
  if (Chance(50)) return "[" + base + "+" + std::to_string(Below(places) * bytes) + "]";
  Line("and.b32 %index, " + Register('w') + ", " + std::to_string(places - 1) + ";");
  Line("mad.wide.u32 %address, %index, " + std::to_string(bytes) + ", " + base + ";");
  return "[%address]";
}

void Generator::OwnMemory(int) {
  struct Area {
    const char* space;
    const char* base;
    uint32_t bytes;
    bool read_only;
  };
  static constexpr Area kAreas[] = {{".local", "%local", kPrivateBytes, false},
                                    {".global", "%private", kPrivateBytes, false},
                                    {".shared", "%slot", kSlotBytes, false},
                                    {"", "%generic_local", kPrivateBytes, false},
                                    {"", "%private", kPrivateBytes, false},
                                    {"", "%generic_slot", kSlotBytes, false},
                                    {".global.nc", "%source", kPrivateAt / 16 * 16 / 16 * 8, true}};
  Area area = kAreas[Below(std::size(kAreas))];
  if (area.read_only) area.bytes = 128;
  const Access& access = kAccesses[Below(std::size(kAccesses))];
  uint32_t lanes = 1u << Below(3);
  while (lanes * access.bytes > 16) lanes /= 2;
  char width = access.registers[Below(std::string(access.registers).size())];
  std::vector<std::string> registers;
  while (registers.size() < lanes) {
    std::string reg = Register(width);
    if (std::find(registers.begin(), registers.end(), reg) == registers.end())
      registers.push_back(reg);
  }
  std::string operand = registers[0];
  if (lanes > 1) {
    operand = "{" + registers[0];
    for (uint32_t i = 1; i < lanes; ++i) operand += "," + registers[i];
    operand += "}";
  }
  std::string suffix = lanes > 1 ? ".v" + std::to_string(lanes) : "";
  std::string at = OwnAddress(area.base, area.bytes, lanes * access.bytes);
  bool is_volatile = !area.read_only && lanes == 1 && Chance(10);
  std::string middle =
      std::string(is_volatile ? ".volatile" : "") + area.space + suffix + "." + access.type;
  if (area.read_only || Chance(50))
    Op("ld" + middle, operand + ", " + at);
  else
    Op("st" + middle, at + ", " + operand);
}

void Generator::OwnAtomic(int) {
  const Atomic& atomic = kAtomics[Below(std::size(kAtomics))];
  static constexpr const char* kSpaces[] = {"global", "shared", ""};
  int space = static_cast<int>(Below(3));
  static constexpr const char* kOrders[] = {"", ".relaxed.gpu", ".acquire.cta", ".acq_rel.sys"};
  std::string where = space == 0 ? "%private" : space == 1 ? "%slot" : "%generic_slot";
  uint32_t area = space == 0 ? kPrivateBytes : kSlotBytes;
  std::string at =
      "[" + where + "+" + std::to_string(Below(area / atomic.bytes) * atomic.bytes) + "]";
  std::string name = std::string(kOrders[Below(4)]) + (space == 2 ? "" : ".") + kSpaces[space];
  std::string operands = at + ", " + Register(atomic.width);
  if (atomic.three) operands += ", " + Register(atomic.width);
  bool forgets = !atomic.three && std::string(atomic.operation).substr(0, 4) != "exch" &&
                 name.find("acq") == std::string::npos && Chance(30);
  if (forgets)
    Op("red" + name + "." + atomic.operation, operands);
  else
    Op("atom" + name + "." + atomic.operation, Register(atomic.width) + ", " + operands);
  if (atomic.nan == 0) return;
  std::string space_name = space == 2 ? "" : std::string(".") + kSpaces[space];
  std::string scratch = std::string("%s") + atomic.width;
  std::string access = space_name + "." + BitsType(atomic.bytes) + " ";
  Line("ld" + access + scratch + ", " + at + ";");
  OneNan(atomic.nan, scratch);
  Line("st" + access + at + ", " + scratch + ";");
}

void Generator::SharedCounter(int) {
  size_t which = Below(std::size(kCounted));
  const Atomic& counted = kCounted[which];
  bool shared = Chance(50);
  std::string name = std::string(shared ? ".shared." : ".global.") + counted.operation;
  bool counts = which >= std::size(kCounted) - 2;  // inc and dec: one limit for all
  std::string operands = "[" + std::string(shared ? "%block_counters" : "%counters") + "+" +
                         std::to_string(8 * which) + "], " +
                         (counts ? "1000" : Register(counted.width));
  if (Chance(50))
    Op("red" + name, operands);
  else
    Op("atom" + name, std::string("%junk") + counted.width + ", " + operands);
}

void Generator::Special(int) {
  static const std::vector<std::string> kRegisters = {
      "%tid.x",  "%ntid.x",      "%ctaid.x",     "%nctaid.x",    "%laneid",      "%tid.y",
      "%ntid.z", "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge"};
  switch (Below(3)) {
    case 0:
      return Op("isspacep." + Pick(std::vector<std::string>{"global", "shared", "local"}),
                Register('p') + ", " +
                    Pick(std::vector<std::string>{"%private", "%generic_slot", "%generic_local"}));
    case 1:
      Line("cvta.to.local.u64 %address, %generic_local;");
      return Op("ld.local.u32", Register('w') + ", [%address+4]");
    default: {
      const std::string& special = Pick(kRegisters);
      opcodes_.push_back("mov.u32 " + special);
      return Line("mov.u32 " + Register('w') + ", " + special + ";");
    }
  }
}

// Neighbours read neighbouring words of what the kernel was given, turn by turn, up to a common end
// or one of their own.
void Generator::StridedLoop(int) {
  const std::string top = Label(), past = Label(), sum = Register('x'), word = Register('w');
  const bool guarded = Chance(70);
  Line("mov.u32 %index, %thread;");
  if (Chance(50))
    Line("mov.u32 %bound, " + std::to_string(1 + Below(300)) + ";");
  else
    Line("and.b32 %bound, " + Register('w') + ", 255;");
  if (guarded) Line("setp.ge.u32 %q, %index, %bound;");
  if (guarded) Line("@%q bra " + past + ";");
  Line(top + ":");
  Line("mad.wide.u32 %address, %index, 8, %given;");
  Line("ld.global.u64 %junkx, [%address];");
  if (Chance(40)) Line("and.b64 %junkx, %junkx, " + sum + ";");
  Line("add.u64 " + sum + ", " + sum + ", %junkx;");
  if (Chance(50)) Line("add.u32 " + word + ", " + word + ", 3;");
  Line("add.u32 %index, %index, %threads;");
  Line("setp.lt.u32 %q, %index, %bound;");
  Line("@%q bra " + top + ";");
  Line(past + ":");
  if (Chance(50)) Line("xor.b32 " + Register('w') + ", " + Register('w') + ", %index;");
}

// Some threads end here, with some of their registers stored.
void Generator::Leave(int) {
  const std::string stay = Label();
  if (Chance(50)) {
    Line("setp.lt.u32 %q, %thread, " + std::to_string(1 + Below(96)) + ";");
    Line("@%q bra " + stay + ";");
  } else {
    Line("@" + Predicate() + " bra " + stay + ";");
  }
  for (uint32_t i = 0; i < kWideRegisters; ++i)
    if (Chance(50))
      Line("st.global.b64 [%record+" + std::to_string(i * 8) + "], %x" + std::to_string(i) + ";");
  Line(Pick(std::vector<std::string>{"ret;", "exit;", "bra done;"}));
  Line(stay + ":");
}

void Generator::CarryChain(int) {
  bool wide = Chance(40);
  std::string type = wide ? (Chance(50) ? ".u64" : ".s64") : (Chance(50) ? ".u32" : ".s32");
  char w = wide ? 'x' : 'w';
  auto three = [&] { return Register(w) + ", " + Register(w) + ", " + Register(w); };
  switch (Below(3)) {
    case 0:
      Op("add.cc" + type, three());
      Op("addc.cc" + type, three());
      return Op("addc" + type, three());
    case 1:
      Op("sub.cc" + type, three());
      Op("subc.cc" + type, three());
      return Op("subc" + type, three());
    default: {
      std::string half = Chance(50) ? "lo" : "hi";
      Op("mad." + half + ".cc" + type, three() + ", " + Register(w));
      Op("madc." + half + ".cc" + type, three() + ", " + Register(w));
      return Op("madc." + half + type, three() + ", " + Register(w));
    }
  }
}

void Generator::CallFunction(int) {
  Line("{");
  std::string how = uniform_ && Chance(50) ? "call.uni" : "call";
  switch (Below(4)) {
    case 0:
    case 1: {
      Line(".param .b32 a0; .param .b64 a1; .param .b32 r0;");
      Line("st.param.b32 [a0+0], " + Register('w') + ";");
      Line("st.param.b64 [a1+0], " + Register('x') + ";");
      if (Chance(40)) {
        std::string prototype = "P" + std::to_string(labels_++);
        Line(prototype + ": .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);");
        Line("mov.u64 %address, f0;");
        Op(how + " (indirect)", "(r0), %address, (a0, a1), " + prototype);
        body_.replace(body_.rfind(how + " (indirect)"), how.size() + 11, how);
      } else {
        Op(how, "(r0), f0, (a0, a1)");
      }
      Line("ld.param.b32 " + Register('w') + ", [r0+0];");
      break;
    }
    case 2:
      Op(how, "(" + Register('x') + "), f1, (" + Register('w') + ", " + Register('h') + ")");
      break;
    default:
      Line(".param .align 8 .b8 s0[16]; .param .align 8 .b8 s1[16];");
      Line("st.param.v2.b64 [s0+0], {" + Register('x') + "," + Register('x') + "};");
      Op(how, "(s1), f2, (s0)");
      Line("ld.param.b64 " + Register('x') + ", [s1+8];");
      Line("ld.param.b32 " + Register('w') + ", [s1+4];");
      break;
  }
  Line("}");
}

// All store, all meet, each reads a neighbour's.
void Generator::Exchange(int) {
  const Access& access = kAccesses[Below(std::size(kAccesses))];
  char width = access.registers[0];
  std::string offset = std::to_string(Below(kSlotBytes / access.bytes) * access.bytes);
  Op(std::string("st.shared.") + access.type, "[%slot+" + offset + "], " + Register(width));
  Op(Chance(50) ? "bar.sync" : "barrier.sync", "0");
  Line("add.u32 %index, %thread, " + std::to_string(1 + Below(95)) + ";");
  Line("rem.u32 %index, %index, %threads;");
  Line("mul.wide.u32 %address, %index, " + std::to_string(kSlotBytes) + ";");
  Line("add.u64 %address, %address, %tile;");
  Op(std::string("ld.shared.") + access.type, Register(width) + ", [%address+" + offset + "]");
  Op("bar.sync", together_ || Chance(50) ? "0" : "1, %threads");
}

void Generator::Barrier(int) {
  std::string id = std::to_string(Below(4));
  std::string name = Chance(50) ? "bar" : "barrier";
  switch (Below(5)) {
    case 0:
      return Op(name + ".red.popc.u32", Register('w') + ", " + id + ", " + Predicate());
    case 1:
      return Op(name + ".red.and.pred", Register('p') + ", " + id + ", " + Predicate());
    case 2:
      return Op(name + ".red.or.pred", Register('p') + ", " + id + ", " + Predicate());
    case 3:
      return Op("bar.warp.sync", "0xffffffff");
    default:
      return Op(Pick(std::vector<std::string>{"membar.cta", "membar.gl", "fence.acq_rel.gpu",
                                              "fence.sc.cta"}),
                "");
  }
}

void Generator::Warp(int) {
  const std::string all = "0xffffffff";
  switch (Below(6)) {
    case 0:
    case 1: {
      std::string mode = Pick(std::vector<std::string>{"up", "down", "bfly", "idx"});
      std::string limit = mode == "up" ? Pick(std::vector<std::string>{"0", "0x1800", "0x1000"})
                                       : Pick(std::vector<std::string>{"31", "0x181f", "0x100f"});
      std::string lane = Chance(60) ? std::to_string(Below(32)) : Register('w');
      std::string in_range = Chance(70) ? "|" + Register('p') : "";
      return Op("shfl.sync." + mode + ".b32", Register('w') + in_range + ", " + Register('w') +
                                                  ", " + lane + ", " + limit + ", " + all);
    }
    case 2: {
      std::string mode = Pick(std::vector<std::string>{"all", "any", "uni"});
      return Op("vote.sync." + mode + ".pred", Register('p') + ", " + Predicate() + ", " + all);
    }
    case 3:
      return Op("vote.sync.ballot.b32", Register('w') + ", " + Predicate() + ", " + all);
    case 4: {
      std::string type = Pick(std::vector<std::string>{"b32", "b64"});
      std::string value = Register(type == "b32" ? 'w' : 'x');
      if (Chance(50))
        return Op("match.any.sync." + type, Register('w') + ", " + value + ", " + all);
      return Op("match.all.sync." + type,
                Register('w') + "|" + Register('p') + ", " + value + ", " + all);
    }
    default: {
      std::string operation =
          Pick(std::vector<std::string>{"add.u32", "add.s32", "min.u32", "min.s32", "max.u32",
                                        "max.s32", "and.b32", "or.b32", "xor.b32"});
      return Op("redux.sync." + operation, Register('w') + ", " + Register('w') + ", " + all);
    }
  }
}

// The lanes for which a predicate holds, among themselves.
void Generator::MaskedWarp(int) {
  std::string end = Label(), chosen = Register('p');
  Op("vote.sync.ballot.b32", "%mask, " + chosen + ", 0xffffffff");
  Op("bra", end, "@!" + chosen + " ");
  switch (Below(4)) {
    case 0:
      Op("vote.sync.any.pred", Register('p') + ", " + Predicate() + ", %mask");
      break;
    case 1:
      Op("match.any.sync.b32", Register('w') + ", " + Register('w') + ", %mask");
      break;
    case 2:
      Op("redux.sync.max.u32", Register('w') + ", " + Register('w') + ", %mask");
      break;
    default:
      Op("elect.sync", "%junkw|" + Register('p') + ", %mask");
      break;
  }
  Line(end + ":");
}

namespace {

std::string Declarations() {
  return "  .reg .pred %p<" + std::to_string(kPredicates) + ">, %q;\n  .reg .b16 %h<" +
         std::to_string(kHalfRegisters) + ">, %na, %nb, %zh, %sh, %junkh;\n  .reg .b32 %w<" +
         std::to_string(kWordRegisters) +
         ">, %zw, %sw, %junkw, %index, %bound, %mask, %thread, %threads, %limit<8>, %count<8>;\n"
         "  .reg .b64 %x<" +
         std::to_string(kWideRegisters) +
         ">, %zx, %sx, %junkx, %address, %record, %source, %private, %local, %slot, %tile, "
         "%generic_local, %generic_slot, %counters, %block_counters, %given;\n";
}

std::string Numbered(const char* text, uint32_t i, uint32_t offset) {
  std::string out = text;
  for (size_t at; (at = out.find('#')) != std::string::npos;) out.replace(at, 1, std::to_string(i));
  for (size_t at; (at = out.find('@')) != std::string::npos;)
    out.replace(at, 1, std::to_string(offset));
  return out;
}

}  // namespace

// A function of a few plain instructions, in one of three calling styles.
std::string Generator::Function(int index) {
  static constexpr const char* kHeads[] = {
      ".func (.param .b32 ret) f0(.param .b32 in0, .param .b64 in1)\n{\n",
      ".func (.reg .b64 %ret) f1(.reg .b32 %in0, .reg .b16 %in1)\n{\n",
      ".func (.param .align 8 .b8 ret[16]) f2(.param .align 8 .b8 in0[16])\n{\n"};
  static constexpr const char* kLoads[] = {
      "  ld.param.b32 %w0, [in0];\n  ld.param.b64 %x0, [in1];\n",
      "  mov.b32 %w0, %in0;\n  cvt.u64.u16 %x0, %in1;\n",
      "  ld.param.b64 %x0, [in0+8];\n  ld.param.b32 %w0, [in0+4];\n"};
  static constexpr const char* kStores[] = {
      "  st.param.b32 [ret], %w1;\n", "  mov.b64 %ret, %x1;\n",
      "  st.param.b64 [ret], %x1;\n  st.param.b64 [ret+8], %x2;\n"};
  std::string text = kHeads[index] + Declarations() + kLoads[index];
  for (uint32_t i = 1; i < kWordRegisters; ++i)
    text += Numbered("  mad.lo.u32 %w#, %w0, #, @;\n", i, i * 77);
  for (uint32_t i = 1; i < kWideRegisters; ++i)
    text += Numbered("  mad.lo.u64 %x#, %x0, #, @;\n", i, i * 7777);
  for (uint32_t i = 0; i < kHalfRegisters; ++i) text += Numbered("  cvt.u16.u32 %h#, %w#;\n", i, 0);
  for (uint32_t i = 0; i < kPredicates; ++i)
    text += Numbered("  setp.gt.s32 %p#, %w#, @;\n", i, i * 1000);
  in_function_ = true;
  std::string saved = std::exchange(body_, "");
  bool was_uniform = std::exchange(uniform_, false);
  Statements(2, 6);
  text += body_ + kStores[index] + "  ret;\n}\n";
  body_ = saved;
  uniform_ = was_uniform;
  in_function_ = false;
  return text;
}

std::string Generator::Prolog() const {
  std::string text =
      ".visible .entry k(.param .u64 p_out, .param .u64 p_in, .param .u64 p_counters, .param .u64 "
      "p_blocks)\n{\n" +
      Declarations() + "  .local .align 16 .b8 area[" + std::to_string(kPrivateBytes) +
      "];\n  .shared .align 16 .b8 slots[" + std::to_string(96 * kSlotBytes) +
      "];\n  .shared .align 8 .b8 block_counters[" + std::to_string(8 * kCounters) + "];\n";
  text +=
      "  mov.u32 %thread, %tid.x;\n  mov.u32 %threads, %ntid.x;\n"
      "  mov.u32 %index, %ctaid.x;\n  mad.lo.u32 %index, %index, %threads, %thread;\n"
      "  ld.param.u64 %record, [p_out];\n  ld.param.u64 %source, [p_in];\n"
      "  ld.param.u64 %counters, [p_counters];\n"
      "  cvta.to.global.u64 %record, %record;\n  cvta.to.global.u64 %source, %source;\n"
      "  cvta.to.global.u64 %counters, %counters;\n  mov.u64 %given, %source;\n";
  std::string bytes = std::to_string(kRecordBytes);
  text += "  mad.wide.u32 %record, %index, " + bytes + ", %record;\n";
  text += "  mad.wide.u32 %source, %index, " + bytes + ", %source;\n";
  text += "  add.u64 %private, %record, " + std::to_string(kPrivateAt) + ";\n";
  text += "  mov.u64 %tile, slots;\n  mad.wide.u32 %slot, %thread, " + std::to_string(kSlotBytes) +
          ", %tile;\n  cvta.shared.u64 %generic_slot, %slot;\n  mov.u64 %local, area;\n"
          "  cvta.local.u64 %generic_local, %local;\n  mov.u64 %block_counters, block_counters;\n"
          "  mad.wide.u32 %address, %thread, 8, %block_counters;\n"
          "  setp.lt.u32 %q, %thread, " +
          std::to_string(kCounters) +
          ";\n"
          "  cvt.u64.u32 %sx, %thread;\n  @%q st.shared.u64 [%address], %sx;\n";
  for (uint32_t i = 0; i < kWideRegisters; ++i)
    text += Numbered("  ld.global.b64 %x#, [%source+@];\n", i, i * 8);
  for (uint32_t i = 0; i < kWordRegisters; ++i)
    text += Numbered("  ld.global.b32 %w#, [%source+@];\n", i, kWordsAt + i * 4);
  for (uint32_t i = 0; i < kHalfRegisters; ++i)
    text += Numbered("  ld.global.b16 %h#, [%source+@];\n", i, kHalvesAt + i * 2);
  text += "  ld.global.b32 %index, [%source+" + std::to_string(kPredicatesAt) + "];\n";
  for (uint32_t i = 0; i < kPredicates; ++i)
    text += Numbered("  and.b32 %junkw, %index, @;\n  setp.ne.u32 %p#, %junkw, 0;\n", i, 1u << i);
  for (uint32_t at = 0; at < kPrivateBytes; at += 8)
    text += Numbered("  st.local.b64 [area+@], %x#;\n", at / 8 % kWideRegisters, at);
  for (uint32_t at = 0; at < kSlotBytes; at += 8)
    text += Numbered("  st.shared.b64 [%slot+@], %x#;\n", at / 8, at);
  return text + "  bar.sync 0;\n";
}

// Stores the registers, and the block's counters once all are done with them.
std::string Generator::Epilog() const {
  std::string text;
  for (uint32_t i = 0; i < kWideRegisters; ++i)
    text += Numbered("  st.global.b64 [%record+@], %x#;\n", i, i * 8);
  for (uint32_t i = 0; i < kWordRegisters; ++i)
    text += Numbered("  st.global.b32 [%record+@], %w#;\n", i, kWordsAt + i * 4);
  for (uint32_t i = 0; i < kHalfRegisters; ++i)
    text += Numbered("  st.global.b16 [%record+@], %h#;\n", i, kHalvesAt + i * 2);
  text += "  mov.u32 %index, 0;\n";
  for (uint32_t i = 0; i < kPredicates; ++i)
    text +=
        Numbered("  selp.u32 %junkw, @, 0, %p#;\n  or.b32 %index, %index, %junkw;\n", i, 1u << i);
  text += "  st.global.b32 [%record+" + std::to_string(kPredicatesAt) + "], %index;\n";
  text += "  bar.sync 0;\n  setp.lt.u32 %q, %thread, " + std::to_string(kCounters) +
          ";\n  @!%q bra done;\n  mad.wide.u32 %address, %thread, 8, %block_counters;\n"
          "  ld.shared.u64 %junkx, [%address];\n  mov.u32 %index, %ctaid.x;\n"
          "  mul.lo.u32 %index, %index, " +
          std::to_string(kCounters) +
          ";\n  add.u32 %index, %index, %thread;\n  ld.param.u64 %address, [p_blocks];\n"
          "  mad.wide.u32 %address, %index, 8, %address;\n  st.global.u64 [%address], %junkx;\n"
          "done:\n  ret;\n}\n";
  return text;
}

}  // namespace farcall::cpu_device::differential
