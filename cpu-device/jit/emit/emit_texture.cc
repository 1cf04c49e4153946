// SPDX-License-Identifier: Apache-2.0
// Textures and surfaces: the arguments go into a buffer, the executor's runtime reads or writes the
// texels.
#include "cpu-device/exec/runtime_texture.h"
#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using ptx::Geometry;
using ptx::Opcode;

namespace {

// How many coordinates a shape takes, after its layer.
unsigned CoordinatesOf(Geometry geometry) {
  switch (geometry) {
    case Geometry::k1d:
    case Geometry::kA1d:
      return 1;
    case Geometry::k2d:
    case Geometry::kA2d:
      return 2;
    case Geometry::k3d:
    case Geometry::kCube:
    case Geometry::kAcube:
      return 3;
    default:
      return 0;
  }
}

bool HasLayer(Geometry geometry) {
  return geometry == Geometry::kA1d || geometry == Geometry::kA2d || geometry == Geometry::kAcube;
}

// In the order of texture::Shape.
uint32_t ShapeOf(Geometry geometry) {
  return static_cast<uint32_t>(geometry) - static_cast<uint32_t>(Geometry::k1d);
}

}  // namespace

// The buffer of a call's arguments, zeroed as far as `words` says.
llvm::Value* Emitter::NewWords(unsigned words) {
  llvm::Type* type = llvm::ArrayType::get(b_.getInt32Ty(), words);
  Value* buffer = NewAlloca(type, "words", 8);
  b_.CreateStore(llvm::Constant::getNullValue(type), buffer);
  return buffer;
}

void Emitter::SetWord(Value* buffer, unsigned word, Value* value) {
  b_.CreateStore(Resize(AsInt(value), 32),
                 b_.CreateConstInBoundsGEP1_64(b_.getInt32Ty(), buffer, word));
}

llvm::Value* Emitter::Word(Value* buffer, unsigned word) {
  return b_.CreateLoad(b_.getInt32Ty(),
                       b_.CreateConstInBoundsGEP1_64(b_.getInt32Ty(), buffer, word));
}

// Layer and coordinates, from behind the comma in the brackets.
bool Emitter::SetCoordinates(const Instruction& instruction, const Operand& address, Type type,
                             Value* buffer) {
  const Geometry geometry = instruction.mods.geometry;
  const unsigned count = CoordinatesOf(geometry);
  if (count == 0) return Unsupported(instruction, "multisampled textures");
  if (address.variable) return Unsupported(instruction, "texture references");
  if (address.elements.size() != 1) return Unsupported(instruction, "a sampler of its own");
  const std::vector<Operand> parts = Parts(address.elements[0]);
  const unsigned first = HasLayer(geometry) ? 1 : 0;
  if (parts.size() < first + count) return Unsupported(instruction, "operand count");
  if (first != 0) SetWord(buffer, kTextureLayer, Read(parts[0], Type::kU32));
  for (unsigned i = 0; i < count; ++i) SetWord(buffer, kTextureX + i, Read(parts[first + i], type));
  return true;
}

// tex, tld4
bool Emitter::EmitTexture(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const Type result_type = instruction.type(0), type = instruction.type(1);
  const bool gather = instruction.Is(Opcode::kTld4);
  if (ops.size() < 2 || ptx::BitsOf(result_type) != 32 ||
      (type != Type::kF32 && type != Type::kS32))
    return Unsupported(instruction);
  Value* in = NewWords(kTextureWords);
  if (!SetCoordinates(instruction, ops[1], type, in)) return false;
  uint32_t what = ShapeOf(instruction.mods.geometry);
  if (type == Type::kS32) what |= kTextureIntegers;
  if (gather) {
    const size_t channel = std::string_view("rgba").find(instruction.Part(1));
    if (channel == std::string_view::npos) return Unsupported(instruction);
    what |= kTextureGather | static_cast<uint32_t>(channel) << kTextureChannelShift;
  } else if (instruction.Has("level")) {
    if (ops.size() < 3) return Unsupported(instruction, "operand count");
    SetWord(in, kTextureLevel, Read(ops[2], type));
  } else if (instruction.Has("grad")) {
    const unsigned count = CoordinatesOf(instruction.mods.geometry);
    if (ops.size() < 4) return Unsupported(instruction, "operand count");
    what |= kTextureGradients;
    for (unsigned side = 0; side < 2; ++side) {
      const std::vector<Operand> parts = Parts(ops[2 + side]);
      if (parts.size() < count) return Unsupported(instruction, "operand count");
      for (unsigned i = 0; i < count; ++i)
        SetWord(in, (side == 0 ? kTextureDx : kTextureDy) + i, Read(parts[i], Type::kF32));
    }
  }
  Value* out = NewWords(4);
  Call("fc_rt_tex", b_.getVoidTy(),
       {SymbolAddress(ops[1]), Int32(what), Int32(instruction.line), in, out});
  const std::vector<Operand> results = Parts(ops[0]);
  for (unsigned i = 0; i < results.size() && i < 4; ++i)
    Write(results[i], Cast(Word(out, i), TypeOf(result_type)), ptx::IsSigned(result_type));
  // Whether the texel is resident: nothing here is sparse.
  if (!instruction.second_dst.Is(Operand::Kind::kNone)) Write(instruction.second_dst, b_.getTrue());
  return true;
}

// suld.b, sust.b, sust.p
bool Emitter::EmitSurface(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const bool load = instruction.Is(Opcode::kSuld);
  const bool formatted = instruction.Has("p");
  const Type type = instruction.type();
  const unsigned bits = ptx::BitsOf(type), count = instruction.mods.vector;
  if (ops.size() != 2 || bits < 8 || bits > 64 || bits * count > 128 ||
      (formatted && (load || bits != 32)))
    return Unsupported(instruction);
  const Operand& address = load ? ops[1] : ops[0];
  Value* in = NewWords(kTextureWords);
  if (!SetCoordinates(instruction, address, Type::kS32, in)) return false;
  uint32_t outside = 0;
  if (instruction.Has("clamp"))
    outside = kSurfaceClamp;
  else if (instruction.Has("zero"))
    outside = kSurfaceZero;
  const uint32_t what = ShapeOf(instruction.mods.geometry) | outside |
                        (formatted ? uint32_t{kSurfaceFormatted} : 0) |
                        (bits / 8 * count) << kSurfaceBytesShift;
  const std::vector<Operand> data = Parts(load ? ops[0] : ops[1]);
  if (data.size() != count) return Unsupported(instruction, "operand count");
  Value* room = NewWords(4);
  auto part = [&](unsigned i) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), room, uint64_t{i} * bits / 8);
  };
  if (!load)
    for (unsigned i = 0; i < count; ++i)
      b_.CreateAlignedStore(AsInt(Read(data[i], type)), part(i), llvm::Align(bits / 8));
  Call(load ? "fc_rt_suld" : "fc_rt_sust", b_.getVoidTy(),
       {SymbolAddress(address), Int32(what), Int32(instruction.line), in, room});
  for (unsigned i = 0; load && i < count; ++i) {
    Value* value = b_.CreateAlignedLoad(IntOf(bits), part(i), llvm::Align(bits / 8));
    Write(data[i], value, ptx::IsSigned(type));
  }
  return true;
}

// txq, suq
bool Emitter::EmitTextureQuery(const Instruction& instruction) {
  static constexpr std::pair<std::string_view, texture::Query> kQueries[] = {
      {"width", texture::Query::kWidth},
      {"height", texture::Query::kHeight},
      {"depth", texture::Query::kDepth},
      {"channel_data_type", texture::Query::kDataType},
      {"channel_order", texture::Query::kOrder},
      {"normalized_coords", texture::Query::kNormalized},
      {"num_mipmap_levels", texture::Query::kLevels},
      {"num_samples", texture::Query::kSamples},
      {"array_size", texture::Query::kLayers},
  };
  const auto& ops = instruction.operands;
  if (ops.size() < 2 || ops[1].variable) return Unsupported(instruction, "texture references");
  for (auto [name, query] : kQueries) {
    if (!instruction.Has(name)) continue;
    Value* level = ops.size() > 2 ? Read(ops[2], Type::kU32) : Int32(0);
    Value* answer = Call("fc_rt_txq", b_.getInt32Ty(),
                         {SymbolAddress(ops[1]), Int32(static_cast<uint32_t>(query)), level,
                          Int32(instruction.line)});
    Write(ops[0], answer);
    return true;
  }
  return Unsupported(instruction);
}

}  // namespace farcall::cpu_device::jit
