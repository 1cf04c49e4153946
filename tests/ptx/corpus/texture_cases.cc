// SPDX-License-Identifier: Apache-2.0
// Textures and surfaces: every texel of an image has its own values, and thread t of 32 asks at
// x = t % 8, y = t / 8, z = t % 3.
#include "tests/ptx/corpus/texture_cases.h"

#include <algorithm>
#include <functional>

#include "tests/ptx/corpus/elementwise.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using Words = std::vector<uint32_t>;

constexpr uint32_t kWidth = 8, kHeight = 4, kDepth = 3, kThreads = 32;

struct At {
  uint32_t x = 0, y = 0, z = 0;
};
At OfThread(uint32_t t) {
  return {t % kWidth, t / kWidth, t % kDepth};
}

// Channel c of a texel, as the bits it has.
uint32_t Texel(const At& at, uint32_t c, bool is_float) {
  const uint32_t number = ((at.z * kHeight + at.y) * kWidth + at.x) * 4 + c + 1;
  if (!is_float) return number * 0x01020304;
  const float value = static_cast<float>(number) * 0.5f;
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

Words Texels(const Image& image) {
  Words words;
  for (uint32_t z = 0; z < image.depth; ++z) {
    for (uint32_t y = 0; y < image.height; ++y) {
      for (uint32_t x = 0; x < image.width; ++x)
        for (uint32_t c = 0; c < 4; ++c) words.push_back(Texel({x, y, z}, c, image.is_float));
    }
  }
  return words;
}

Argument ImageOf(const Image& image) {
  Argument a;
  a.kind = Argument::Kind::kImage;
  a.image = image;
  a.bytes = BytesOf(Texels(image));
  return a;
}

// The image that a shape looks into, and its coordinates: of whole numbers `%x` and so on, or
// `%fx`.
struct Shape {
  const char* name;
  uint32_t dimensions;
  bool is_layered;
  std::string Coordinates(const std::string& f) const {
    const std::string x = "%" + f + "x", y = "%" + f + "y", z = "%" + f + "z";
    if (is_layered)
      return dimensions == 1 ? "{%z, " + x + "}" : "{%z, " + x + ", " + y + ", " + y + "}";
    return dimensions == 1   ? "{" + x + "}"
           : dimensions == 2 ? "{" + x + ", " + y + "}"
                             : "{" + x + ", " + y + ", " + z + ", " + z + "}";
  }
  Image Of(bool is_float, bool is_surface = false) const {
    Image image;
    image.is_float = is_float;
    image.is_surface = is_surface;
    image.is_layered = is_layered;
    image.dimensions = dimensions;
    image.width = kWidth;
    image.height = dimensions >= 2 ? kHeight : 1;
    image.depth = dimensions >= 3 || is_layered ? kDepth : 1;
    return image;
  }
  // As far as the image goes.
  At Place(uint32_t t) const {
    At at = OfThread(t);
    if (dimensions < 2) at.y = 0;
    if (dimensions < 3 && !is_layered) at.z = 0;
    return at;
  }
  // Texels() counts with the image's own height.
  uint32_t Value(const At& at, uint32_t c, bool is_float) const {
    const Image image = Of(is_float);
    return Texels(image)[((at.z * image.height + at.y) * image.width + at.x) * 4 + c];
  }
};

constexpr Shape kShapes[] = {
    {"1d", 1, false}, {"2d", 2, false}, {"3d", 3, false}, {"a1d", 1, true}, {"a2d", 2, true}};

// k(d, image): %bx is 16 * x, a surface's coordinate in bytes; results go from %r0 on to word
// `words` * t.
Case Made(const std::string& name, const std::string& body, unsigned words, const Words& want,
          const Argument& image) {
  Case c;
  c.name = name;
  std::string stores;
  for (unsigned i = 0; i < words; ++i)
    stores += "  st.global.b32 [%d+" + std::to_string(4 * i) + "], %r" + std::to_string(i) + ";\n";
  c.ptx =
      ".version 8.6\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 p_d, .param .u64 p_i)\n{\n  .reg .pred %p<8>;\n"
      "  .reg .b16 %h<8>;\n  .reg .b32 %t, %x, %y, %z, %bx, %r<16>;\n"
      "  .reg .f32 %fx, %fy, %fz, %f<8>;\n  .reg .b64 %d, %i, %rd<4>;\n"
      "  ld.param.u64 %d, [p_d];\n  ld.param.u64 %i, [p_i];\n  mov.u32 %t, %tid.x;\n"
      "  and.b32 %x, %t, 7;\n  shr.u32 %y, %t, 3;\n  rem.u32 %z, %t, 3;\n  shl.b32 %bx, %x, 4;\n"
      "  cvt.rn.f32.u32 %fx, %x;\n  add.f32 %fx, %fx, 0f3F000000;\n"
      "  cvt.rn.f32.u32 %fy, %y;\n  add.f32 %fy, %fy, 0f3F000000;\n"
      "  cvt.rn.f32.u32 %fz, %z;\n  add.f32 %fz, %fz, 0f3F000000;\n"
      "  mul.wide.u32 %rd1, %t, " +
      std::to_string(4 * words) + ";\n  add.u64 %d, %d, %rd1;\n" + body + stores + "  ret;\n}\n";
  c.block.x = kThreads;
  c.arguments = {Output(want), image};
  return c;
}

Words Each(unsigned words, const std::function<uint32_t(uint32_t t, unsigned i)>& value) {
  Words all;
  for (uint32_t t = 0; t < kThreads; ++t)
    for (unsigned i = 0; i < words; ++i) all.push_back(value(t, i));
  return all;
}

void AddFetches(Cases* out) {
  for (const Shape& shape : kShapes) {
    for (const char* type : {"f32", "u32", "s32"}) {
      const bool is_float = type[0] == 'f';
      const Words want =
          Each(4, [&](uint32_t t, unsigned i) { return shape.Value(shape.Place(t), i, is_float); });
      for (const char* by : {"f32", "s32"}) {
        const std::string name = std::string("tex.") + shape.name + ".v4." + type + "." + by;
        out->push_back(Made(name,
                            "  " + name + " {%r0, %r1, %r2, %r3}, [%i, " +
                                shape.Coordinates(by[0] == 'f' ? "f" : "") + "];\n",
                            4, want, ImageOf(shape.Of(is_float))));
      }
    }
  }
  const Shape& flat = kShapes[1];
  const Words plain =
      Each(4, [&](uint32_t t, unsigned i) { return flat.Value(flat.Place(t), i, true); });
  out->push_back(Made("tex.level.2d.v4.f32.f32",
                      "  mov.f32 %f1, 0f00000000;\n  tex.level.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, "
                      "[%i, {%fx, %fy}], %f1;\n",
                      4, plain, ImageOf(flat.Of(true))));
  out->push_back(Made("tex.grad.2d.v4.f32.f32",
                      "  mov.f32 %f1, 0f3F800000;\n  tex.grad.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, "
                      "[%i, {%fx, %fy}], {%f1, %f1}, {%f1, %f1};\n",
                      4, plain, ImageOf(flat.Of(true))));
  // A quarter of a texel to the right: the next one's quarter, which differs by 4 halves of
  // channels.
  Image linear = flat.Of(true);
  linear.is_linear = true;
  const Words between = Each(4, [&](uint32_t t, unsigned i) {
    const At at = OfThread(t);
    const float value = 0.5f * static_cast<float>((at.y * kWidth + at.x) * 4 + i + 1) +
                        (at.x == kWidth - 1 ? 0.0f : 0.5f);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  });
  out->push_back(Made("tex.2d.v4.f32.f32 linear",
                      "  add.f32 %fx, %fx, 0f3E800000;\n  tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, "
                      "[%i, {%fx, %fy}];\n",
                      4, between, ImageOf(linear)));
  // The four texels around a corner, counter-clockwise from the lower left.
  const char* const channels[] = {"r", "g", "b", "a"};
  for (unsigned channel = 0; channel < 4; ++channel) {
    const Words want = Each(4, [&](uint32_t t, unsigned i) {
      const At at = OfThread(t);
      const uint32_t right = i == 1 || i == 2, down = i < 2;
      return flat.Value({std::min(at.x + right, kWidth - 1), std::min(at.y + down, kHeight - 1), 0},
                        channel, true);
    });
    const std::string name = std::string("tld4.") + channels[channel] + ".2d.v4.f32.f32";
    out->push_back(Made(name,
                        "  add.f32 %fx, %fx, 0f3F000000;\n  add.f32 %fy, %fy, 0f3F000000;\n  " +
                            name + " {%r0, %r1, %r2, %r3}, [%i, {%fx, %fy}];\n",
                        4, want, ImageOf(flat.Of(true))));
  }
}

// Along the axes: the middle of each face.
void AddCube(Cases* out) {
  Image cube;
  cube.is_cube = true;
  cube.width = cube.height = 4;
  cube.depth = 6;
  Argument image;
  image.kind = Argument::Kind::kImage;
  image.image = cube;
  std::vector<float> texels(4 * 4 * 6 * 4);
  for (size_t i = 0; i < texels.size(); ++i) texels[i] = static_cast<float>(i);
  image.bytes = BytesOf(texels);
  const Words want = Each(4, [&](uint32_t t, unsigned i) {
    const float value = texels[((t % 6 * 4 + 2) * 4 + 2) * 4 + i];
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  });
  out->push_back(Made("tex.cube.v4.f32.f32",
                      "  rem.u32 %r4, %t, 6;\n  and.b32 %r5, %r4, 1;\n  shr.u32 %r4, %r4, 1;\n  "
                      "setp.ne.u32 %p0, %r5, 0;\n"
                      "  selp.f32 %f1, 0fC0000000, 0f40000000, %p0;\n  setp.eq.u32 %p1, %r4, 0;\n  "
                      "setp.eq.u32 %p2, %r4, 1;\n"
                      "  setp.eq.u32 %p3, %r4, 2;\n  selp.f32 %f2, %f1, 0f00000000, %p1;\n  "
                      "selp.f32 %f3, %f1, 0f00000000, %p2;\n"
                      "  selp.f32 %f4, %f1, 0f00000000, %p3;\n  tex.cube.v4.f32.f32 {%r0, %r1, "
                      "%r2, %r3}, [%i, {%f2, %f3, %f4, %f4}];\n",
                      4, want, image));
}

std::string SurfaceAt(const Shape& shape) {
  std::string at = shape.Coordinates("");
  // x stands first, or behind the layer.
  const size_t x = at.find("%x");
  return at.replace(x, 2, "%bx");
}

void AddSurfaces(Cases* out) {
  for (const Shape& shape : kShapes) {
    const Words want =
        Each(4, [&](uint32_t t, unsigned i) { return shape.Value(shape.Place(t), i, false); });
    const std::string at = SurfaceAt(shape);
    for (const char* outside : {"trap", "clamp", "zero"}) {
      const std::string name = std::string("suld.b.") + shape.name + ".v4.b32." + outside;
      out->push_back(Made(name, "  " + name + " {%r0, %r1, %r2, %r3}, [%i, " + at + "];\n", 4, want,
                          ImageOf(shape.Of(false, true))));
      // Thread t is the last to write its texel if no later one writes the same: 1d and 3d do not
      // tell threads apart, so they write what depends on the place alone.
      const std::string store = std::string("sust.b.") + shape.name + ".v4.b32." + outside;
      Argument after = ImageOf(shape.Of(false, true));
      Words words = Texels(shape.Of(false));
      for (uint32_t t = 0; t < kThreads; ++t) {
        const At place = shape.Place(t);
        const Image image = shape.Of(false);
        for (uint32_t i = 0; i < 4; ++i)
          words[((place.z * image.height + place.y) * kWidth + place.x) * 4 + i] =
              100 * place.x + i;
      }
      after.expected = BytesOf(words);
      out->push_back(Made(store,
                          "  mul.lo.u32 %r0, %x, 100;\n  add.u32 %r1, %r0, 1;\n  add.u32 %r2, %r0, "
                          "2;\n  add.u32 %r3, %r0, 3;\n  " +
                              store + " [%i, " + at + "], {%r0, %r1, %r2, %r3};\n",
                          0, {}, after));
    }
  }
}

// Widths other than a texel's, and formats.
void AddSurfaceParts(Cases* out) {
  const Shape& flat = kShapes[1];
  auto byte_of = [&](uint32_t t, unsigned bytes) {
    return flat.Value(flat.Place(t), 0, false) & (bytes == 1 ? 0xffu : 0xffffu);
  };
  out->push_back(Made("suld.b.2d.b8.trap",
                      "  suld.b.2d.b8.trap %h1, [%i, {%bx, %y}];\n  cvt.u32.u16 %r0, %h1;\n  "
                      "and.b32 %r0, %r0, 255;\n",
                      1, Each(1, [&](uint32_t t, unsigned) { return byte_of(t, 1); }),
                      ImageOf(flat.Of(false, true))));
  out->push_back(Made("suld.b.2d.b16.trap",
                      "  suld.b.2d.b16.trap %h1, [%i, {%bx, %y}];\n  cvt.u32.u16 %r0, %h1;\n", 1,
                      Each(1, [&](uint32_t t, unsigned) { return byte_of(t, 2); }),
                      ImageOf(flat.Of(false, true))));
  out->push_back(
      Made("suld.b.2d.b32.trap", "  suld.b.2d.b32.trap %r0, [%i, {%bx, %y}];\n", 1,
           Each(1, [&](uint32_t t, unsigned) { return flat.Value(flat.Place(t), 0, false); }),
           ImageOf(flat.Of(false, true))));
  out->push_back(
      Made("suld.b.2d.v2.b32.trap", "  suld.b.2d.v2.b32.trap {%r0, %r1}, [%i, {%bx, %y}];\n", 2,
           Each(2, [&](uint32_t t, unsigned i) { return flat.Value(flat.Place(t), i, false); }),
           ImageOf(flat.Of(false, true))));
  out->push_back(
      Made("suld.b.2d.b64.trap",
           "  suld.b.2d.b64.trap %rd2, [%i, {%bx, %y}];\n  mov.b64 {%r0, %r1}, %rd2;\n", 2,
           Each(2, [&](uint32_t t, unsigned i) { return flat.Value(flat.Place(t), i, false); }),
           ImageOf(flat.Of(false, true))));
  // Outside: the last texel, or zeros.
  const std::string past = "  add.u32 %bx, %bx, 64;\n";
  out->push_back(Made("suld.b.2d.b32.clamp past the end",
                      past + "  suld.b.2d.b32.clamp %r0, [%i, {%bx, %y}];\n", 1,
                      Each(1,
                           [&](uint32_t t, unsigned) {
                             At at = OfThread(t);
                             at.z = 0;
                             const uint32_t x = at.x + 4;
                             // The last four bytes of the row are the last channel's.
                             return x < kWidth ? flat.Value({x, at.y, 0}, 0, false)
                                               : flat.Value({kWidth - 1, at.y, 0}, 3, false);
                           }),
                      ImageOf(flat.Of(false, true))));
  out->push_back(Made(
      "suld.b.2d.b32.zero past the end", past + "  suld.b.2d.b32.zero %r0, [%i, {%bx, %y}];\n", 1,
      Each(1,
           [&](uint32_t t, unsigned) {
             const At at = OfThread(t);
             return at.x + 4 < kWidth ? flat.Value({at.x + 4, at.y, 0}, 0, false) : 0;
           }),
      ImageOf(flat.Of(false, true))));
  Argument after = ImageOf(flat.Of(false, true));
  Words words;
  for (uint32_t i = 0; i < kWidth * kHeight * 4; ++i) words.push_back(i / 4 * 10 + i % 4);
  after.expected = BytesOf(words);
  out->push_back(Made("sust.p.2d.v4.b32.trap",
                      "  mul.lo.u32 %r0, %t, 10;\n  add.u32 %r1, %r0, 1;\n  add.u32 %r2, %r0, 2;\n "
                      " add.u32 %r3, %r0, 3;\n"
                      "  sust.p.2d.v4.b32.trap [%i, {%x, %y}], {%r0, %r1, %r2, %r3};\n",
                      0, {}, after));
}

void AddQueries(Cases* out) {
  struct Query {
    const char* name;
    uint32_t texture, surface;
  };
  for (const Query& q : {Query{"width", kWidth, kWidth}, Query{"height", kHeight, kHeight},
                         Query{"depth", kDepth, kDepth}}) {
    const Shape& solid = kShapes[2];
    out->push_back(Made(
        std::string("txq.") + q.name + ".b32", std::string("  txq.") + q.name + ".b32 %r0, [%i];\n",
        1, Each(1, [&](uint32_t, unsigned) { return q.texture; }), ImageOf(solid.Of(true))));
    out->push_back(Made(
        std::string("suq.") + q.name + ".b32", std::string("  suq.") + q.name + ".b32 %r0, [%i];\n",
        1, Each(1, [&](uint32_t, unsigned) { return q.surface; }), ImageOf(solid.Of(true, true))));
  }
  out->push_back(Made("txq.array_size.b32", "  txq.array_size.b32 %r0, [%i];\n", 1,
                      Each(1, [](uint32_t, unsigned) { return kDepth; }),
                      ImageOf(kShapes[4].Of(true))));
  out->push_back(Made("txq.normalized_coords.b32", "  txq.normalized_coords.b32 %r0, [%i];\n", 1,
                      Each(1, [](uint32_t, unsigned) { return 0u; }),
                      ImageOf(kShapes[1].Of(true))));
  out->push_back(Made("txq.num_mipmap_levels.b32", "  txq.num_mipmap_levels.b32 %r0, [%i];\n", 1,
                      Each(1, [](uint32_t, unsigned) { return 1u; }),
                      ImageOf(kShapes[1].Of(true))));
}

}  // namespace

const std::vector<Case>& TextureCases() {
  static const auto& cases = *new Cases([] {
    Cases all;
    AddFetches(&all);
    AddCube(&all);
    AddSurfaces(&all);
    AddSurfaceParts(&all);
    AddQueries(&all);
    return all;
  }());
  return cases;
}

}  // namespace farcall::cpu_device::ptx_corpus
