// SPDX-License-Identifier: Apache-2.0
// From a mnemonic's text to opcode and typed modifiers. A word such as ".and" means what its opcode
// makes it mean.
#include "cpu-device/ptx/modifiers.h"

#include <unordered_map>

#include "cpu-device/ptx/names.h"

namespace farcall::cpu_device::ptx {
namespace {

template <typename T>
using Table = std::unordered_map<std::string_view, T>;

template <typename T>
bool Lookup(const Table<T>& table, std::string_view word, T* out) {
  auto it = table.find(word);
  if (it == table.end()) return false;
  *out = it->second;
  return true;
}

const Table<bool Modifiers::*>& Flags() {
  static const auto& table = *new Table<bool Modifiers::*>{
      {"ftz", &Modifiers::ftz},
      {"sat", &Modifiers::sat},
      {"satfinite", &Modifiers::satfinite},
      {"relu", &Modifiers::relu},
      {"NaN", &Modifiers::nan},
      {"approx", &Modifiers::approx},
      {"full", &Modifiers::full},
      {"abs", &Modifiers::abs},
      {"noftz", &Modifiers::noftz},
      {"cc", &Modifiers::cc},
      {"to", &Modifiers::to},
      {"shiftamt", &Modifiers::shiftamt},
      {"nc", &Modifiers::nc},
      {"sync", &Modifiers::sync},
      {"aligned", &Modifiers::aligned},
      {"trans", &Modifiers::trans},
      {"async", &Modifiers::async},
  };
  return table;
}

const Table<Rounding>& Roundings() {
  static const auto& table = *new Table<Rounding>{
      {"rn", Rounding::kRn},   {"rz", Rounding::kRz},   {"rm", Rounding::kRm},
      {"rp", Rounding::kRp},   {"rna", Rounding::kRna}, {"rs", Rounding::kRs},
      {"rni", Rounding::kRni}, {"rzi", Rounding::kRzi}, {"rmi", Rounding::kRmi},
      {"rpi", Rounding::kRpi},
  };
  return table;
}

const Table<Compare>& Compares() {
  static const auto& table = *new Table<Compare>{
      {"eq", Compare::kEq},   {"ne", Compare::kNe},   {"lt", Compare::kLt},
      {"le", Compare::kLe},   {"gt", Compare::kGt},   {"ge", Compare::kGe},
      {"lo", Compare::kLo},   {"ls", Compare::kLs},   {"hi", Compare::kHi},
      {"hs", Compare::kHs},   {"equ", Compare::kEqu}, {"neu", Compare::kNeu},
      {"ltu", Compare::kLtu}, {"leu", Compare::kLeu}, {"gtu", Compare::kGtu},
      {"geu", Compare::kGeu}, {"num", Compare::kNum}, {"nan", Compare::kNan},
  };
  return table;
}

const Table<Semantics>& SemanticsTable() {
  static const auto& table = *new Table<Semantics>{
      {"weak", Semantics::kWeak},       {"volatile", Semantics::kVolatile},
      {"relaxed", Semantics::kRelaxed}, {"acquire", Semantics::kAcquire},
      {"release", Semantics::kRelease}, {"acq_rel", Semantics::kAcqRel},
      {"sc", Semantics::kSc},           {"mmio", Semantics::kMmio},
  };
  return table;
}

const Table<Scope>& Scopes() {
  static const auto& table = *new Table<Scope>{
      {"cta", Scope::kCta}, {"cluster", Scope::kCluster}, {"gpu", Scope::kGpu},
      {"gl", Scope::kGpu},  {"sys", Scope::kSys},
  };
  return table;
}

const Table<CacheOp>& CacheOps() {
  static const auto& table = *new Table<CacheOp>{
      {"ca", CacheOp::kCa}, {"cg", CacheOp::kCg}, {"cs", CacheOp::kCs}, {"lu", CacheOp::kLu},
      {"cv", CacheOp::kCv}, {"wb", CacheOp::kWb}, {"wt", CacheOp::kWt},
  };
  return table;
}

const Table<AtomicOp>& AtomicOps() {
  static const auto& table = *new Table<AtomicOp>{
      {"add", AtomicOp::kAdd}, {"min", AtomicOp::kMin},   {"max", AtomicOp::kMax},
      {"inc", AtomicOp::kInc}, {"dec", AtomicOp::kDec},   {"cas", AtomicOp::kCas},
      {"and", AtomicOp::kAnd}, {"exch", AtomicOp::kExch}, {"or", AtomicOp::kOr},
      {"xor", AtomicOp::kXor}, {"popc", AtomicOp::kPopc},
  };
  return table;
}

const Table<ShuffleMode>& ShuffleModes() {
  static const auto& table = *new Table<ShuffleMode>{
      {"up", ShuffleMode::kUp},
      {"down", ShuffleMode::kDown},
      {"bfly", ShuffleMode::kBfly},
      {"idx", ShuffleMode::kIdx},
  };
  return table;
}

const Table<VoteMode>& VoteModes() {
  static const auto& table = *new Table<VoteMode>{
      {"all", VoteMode::kAll},
      {"any", VoteMode::kAny},
      {"uni", VoteMode::kUni},
      {"ballot", VoteMode::kBallot},
  };
  return table;
}

const Table<PermuteMode>& PermuteModes() {
  static const auto& table = *new Table<PermuteMode>{
      {"f4e", PermuteMode::kF4e}, {"b4e", PermuteMode::kB4e}, {"rc8", PermuteMode::kRc8},
      {"ecl", PermuteMode::kEcl}, {"ecr", PermuteMode::kEcr}, {"rc16", PermuteMode::kRc16},
  };
  return table;
}

const Table<TestOp>& TestOps() {
  static const auto& table = *new Table<TestOp>{
      {"finite", TestOp::kFinite}, {"infinite", TestOp::kInfinite},
      {"number", TestOp::kNumber}, {"notanumber", TestOp::kNotanumber},
      {"normal", TestOp::kNormal}, {"subnormal", TestOp::kSubnormal},
  };
  return table;
}

const Table<BarrierOp>& BarrierOps() {
  static const auto& table = *new Table<BarrierOp>{
      {"sync", BarrierOp::kSync},
      {"arrive", BarrierOp::kArrive},
      {"red", BarrierOp::kRed},
      {"wait", BarrierOp::kWait},
  };
  return table;
}

const Table<Geometry>& Geometries() {
  static const auto& table = *new Table<Geometry>{
      {"1d", Geometry::k1d},       {"2d", Geometry::k2d},     {"3d", Geometry::k3d},
      {"a1d", Geometry::kA1d},     {"a2d", Geometry::kA2d},   {"cube", Geometry::kCube},
      {"acube", Geometry::kAcube}, {"2dms", Geometry::k2dms}, {"a2dms", Geometry::kA2dms},
  };
  return table;
}

// ".m16n8k16", ".m8n8".
bool ParseShape(std::string_view word, Modifiers* mods) {
  if (word.size() < 2 || word[0] != 'm') return false;
  uint16_t dims[3] = {0, 0, 0};
  size_t i = 0;
  for (unsigned d = 0; d < 3 && i < word.size(); ++d) {
    if (word[i++] != "mnk"[d]) return false;
    size_t digits = i;
    while (i < word.size() && word[i] >= '0' && word[i] <= '9' && i - digits < 4)
      dims[d] = static_cast<uint16_t>(dims[d] * 10 + (word[i++] - '0'));
    if (i == digits) return false;
  }
  if (i != word.size()) return false;
  mods->m = dims[0];
  mods->n = dims[1];
  mods->k = dims[2];
  return true;
}

// Words whose meaning depends on the opcode. True if taken.
bool ParseOfOpcode(Opcode opcode, std::string_view word, Modifiers* mods) {
  switch (opcode) {
    case Opcode::kLop3:
    case Opcode::kSet:
    case Opcode::kSetp:
      if (word == "and") return mods->bool_op = BoolOp::kAnd, true;
      if (word == "or") return mods->bool_op = BoolOp::kOr, true;
      if (word == "xor") return mods->bool_op = BoolOp::kXor, true;
      return Lookup(Compares(), word, &mods->compare);
    case Opcode::kVset:
    case Opcode::kVset2:
    case Opcode::kVset4:
      return Lookup(Compares(), word, &mods->compare);
    case Opcode::kAtom:
    case Opcode::kRed:
    case Opcode::kRedux:
    case Opcode::kMultimem:
      return Lookup(AtomicOps(), word, &mods->atomic);
    case Opcode::kSured:
      return Lookup(AtomicOps(), word, &mods->atomic) ||
             Lookup(Geometries(), word, &mods->geometry);
    case Opcode::kCp:
      return Lookup(AtomicOps(), word, &mods->atomic);
    case Opcode::kShfl:
      return Lookup(ShuffleModes(), word, &mods->shuffle);
    case Opcode::kVote:
    case Opcode::kMatch:
      return Lookup(VoteModes(), word, &mods->vote);
    case Opcode::kPrmt:
      return Lookup(PermuteModes(), word, &mods->permute);
    case Opcode::kTestp:
      return Lookup(TestOps(), word, &mods->test);
    case Opcode::kBar:
    case Opcode::kBarrier:
      if (word == "sync" && mods->barrier == BarrierOp::kWarpSync) return mods->sync = true;
      if (Lookup(BarrierOps(), word, &mods->barrier)) {
        mods->sync = word == "sync";
        return true;
      }
      if (word == "warp") return mods->barrier = BarrierOp::kWarpSync, true;
      if (word == "cluster") return mods->cluster = true;
      return Lookup(AtomicOps(), word, &mods->atomic);
    case Opcode::kShf:
      if (word == "l") return mods->shift_left = true;
      if (word == "r") return mods->shift_right = true;
      return false;
    case Opcode::kTex:
    case Opcode::kTld4:
    case Opcode::kSuld:
    case Opcode::kSust:
      return Lookup(Geometries(), word, &mods->geometry);
    case Opcode::kWmma:
      if (word == "a") return mods->matrix_op = MatrixOp::kLoadA, true;
      if (word == "b") return mods->matrix_op = MatrixOp::kLoadB, true;
      if (word == "c") return mods->matrix_op = MatrixOp::kLoadC, true;
      if (word == "store") return mods->matrix_op = MatrixOp::kStoreD, true;
      if (word == "mma") return mods->matrix_op = MatrixOp::kMma, true;
      return false;
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
      if (word == "x1" || word == "x2" || word == "x4") {
        mods->matrix_count = static_cast<uint8_t>(word[1] - '0');
        return true;
      }
      return false;
    default:
      return false;
  }
}

bool ParseWidths(std::string_view word, Modifiers* mods) {
  if (word == "lo") return mods->mul_mode = MulMode::kLo, true;
  if (word == "hi") return mods->mul_mode = MulMode::kHi, true;
  if (word == "wide") return mods->mul_mode = MulMode::kWide, true;
  if (word == "wrap") return mods->shift_mode = ShiftMode::kWrap, true;
  if (word == "clamp") return mods->shift_mode = ShiftMode::kClamp, true;
  if (word == "v2") return mods->vector = 2, true;
  if (word == "v4") return mods->vector = 4, true;
  if (word == "v8") return mods->vector = 8, true;
  if (word == "row" || word == "col") {
    Layout layout = word == "row" ? Layout::kRow : Layout::kCol;
    (mods->layout_a == Layout::kNone ? mods->layout_a : mods->layout_b) = layout;
    return true;
  }
  return false;
}

void ParseWord(Opcode opcode, std::string_view word, Modifiers* mods) {
  if (ParseOfOpcode(opcode, word, mods)) return;
  Type type = FindType(word);
  if (type != Type::kNone) {
    if (mods->type_count < std::size(mods->types)) mods->types[mods->type_count++] = type;
    return;
  }
  Space space = FindSpace(word);
  if (space != Space::kNone) {
    (mods->space == Space::kNone ? mods->space : mods->space2) = space;
    return;
  }
  bool Modifiers::*flag = nullptr;
  if (Lookup(Flags(), word, &flag)) {
    mods->*flag = true;
    return;
  }
  if (word == "uni") {
    mods->uni = true;
    return;
  }
  if (word == "xorsign") {
    mods->xorsign_abs = true;
    return;
  }
  if (ParseWidths(word, mods) || ParseShape(word, mods)) return;
  if (Lookup(Roundings(), word, &mods->rounding)) return;
  if (Lookup(SemanticsTable(), word, &mods->semantics)) return;
  if (Lookup(Scopes(), word, &mods->scope)) return;
  Lookup(CacheOps(), word, &mods->cache);
}

}  // namespace

std::string_view MnemonicPart(std::string_view mnemonic, unsigned i) {
  while (true) {
    size_t dot = mnemonic.find('.');
    if (i-- == 0) return mnemonic.substr(0, dot);
    if (dot == std::string_view::npos) return {};
    mnemonic.remove_prefix(dot + 1);
  }
}

bool ParseMnemonic(std::string_view mnemonic, Opcode* opcode, Modifiers* mods) {
  *opcode = FindOpcode(MnemonicPart(mnemonic, 0));
  *mods = Modifiers();
  if (*opcode == Opcode::kUnknown) return false;
  size_t dot = mnemonic.find('.');
  while (dot != std::string_view::npos) {
    mnemonic.remove_prefix(dot + 1);
    dot = mnemonic.find('.');
    ParseWord(*opcode, mnemonic.substr(0, dot), mods);
  }
  // `.xorsign.abs` is one modifier in two words.
  if (mods->xorsign_abs) mods->abs = false;
  if (*opcode == Opcode::kBar && mods->barrier == BarrierOp::kNone)
    mods->barrier = BarrierOp::kSync;
  return true;
}

}  // namespace farcall::cpu_device::ptx
