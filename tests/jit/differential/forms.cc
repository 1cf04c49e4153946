// SPDX-License-Identifier: Apache-2.0
// The table. A line is "mnemonics|operands|result": braces enumerate, the result letter says which
// NaNs are made canonical (f f32, g f64, h f16, b bf16, H f16x2, B bf16x2, F f32x2).
//   =h =w =x =p   destination of 16, 32, 64 bits or a predicate; =p/=p two of them
//   h w x p       source register; !p one that may be negated
//   H W X         register or an integer constant; f g: register or an f32, f64 constant
//   u             a shift amount; n 0..31; m 0..255; 1..9 a constant up to that
//   Zh Zw Zx      a divisor: never 0, never -1 (what those give, the ISA leaves open)
// Left out, because the ISA leaves their result open or only bounds it: approximations, division by
// zero, fns with a base out of range.
#include "tests/jit/differential/forms.h"

#include <sstream>

namespace farcall::cpu_device::differential {
namespace {

constexpr const char* kLines[] = {
    // integers
    "{add,sub,mul.lo,mul.hi,min,max}.{u16,s16}|=h,h,H|",
    "{add,sub,mul.lo,mul.hi,min,max}.{u32,s32}|=w,w,W|",
    "{add,sub,mul.lo,mul.hi,min,max}.{u64,s64}|=x,x,X|",
    "{add,sub}.sat.s32|=w,w,W|",
    "{div,rem}.{u16,s16}|=h,h,Zh|",
    "{div,rem}.{u32,s32}|=w,w,Zw|",
    "{div,rem}.{u64,s64}|=x,x,Zx|",
    "{mad.lo,mad.hi}.{u16,s16}|=h,h,h,H|",
    "{mad.lo,mad.hi,mad24.lo,mad24.hi}.{u32,s32}|=w,w,w,W|",
    "{mad.lo,mad.hi}.{u64,s64}|=x,x,x,X|",
    "{mad.hi,mad24.hi}.sat.s32|=w,w,w,w|",
    "{mul24.lo,mul24.hi}.{u32,s32}|=w,w,W|",
    "mul.wide.{u16,s16}|=w,h,H|",
    "mul.wide.{u32,s32}|=x,w,W|",
    "mad.wide.{u16,s16}|=w,h,h,W|",
    "mad.wide.{u32,s32}|=x,w,w,X|",
    "sad.{u16,s16}|=h,h,h,h|",
    "sad.{u32,s32}|=w,w,w,W|",
    "sad.{u64,s64}|=x,x,x,x|",
    "{neg,abs}.s16|=h,h|",
    "{neg,abs}.s32|=w,w|",
    "{neg,abs}.s64|=x,x|",
    "{min,max}.relu.s32|=w,w,w|",
    "{add,min,max}.{u16x2,s16x2}|=w,w,w|",
    "{min,max}.relu.s16x2|=w,w,w|",
    "dp4a.{u32,s32}.{u32,s32}|=w,w,w,w|",
    "dp2a.{lo,hi}.{u32,s32}.{u32,s32}|=w,w,w,w|",
    // bits
    "{and,or,xor}.b16|=h,h,H|",
    "{and,or,xor}.b32|=w,w,W|",
    "{and,or,xor}.b64|=x,x,X|",
    "{and,or,xor}.pred|=p,p,!p|",
    "{not,cnot}.b16|=h,h|",
    "{not,cnot}.b32|=w,w|",
    "{not,cnot}.b64|=x,x|",
    "not.pred|=p,p|",
    "shl.b16|=h,h,u|",
    "shl.b32|=w,w,u|",
    "shl.b64|=x,x,u|",
    "shr.{b16,u16,s16}|=h,h,u|",
    "shr.{b32,u32,s32}|=w,w,u|",
    "shr.{b64,u64,s64}|=x,x,u|",
    "shf.{l,r}.{clamp,wrap}.b32|=w,w,w,u|",
    "{popc,clz}.b32|=w,w|",
    "{popc,clz}.b64|=w,x|",
    "brev.b32|=w,w|",
    "brev.b64|=x,x|",
    "bfind{,.shiftamt}.{u32,s32}|=w,w|",
    "bfind{,.shiftamt}.{u64,s64}|=w,x|",
    "bfe.{u32,s32}|=w,w,u,u|",
    "bfe.{u64,s64}|=x,x,u,u|",
    "bfi.b32|=w,w,w,u,u|",
    "bfi.b64|=x,x,x,u,u|",
    "bmsk.{clamp,wrap}.b32|=w,u,u|",
    "szext.{clamp,wrap}.{u32,s32}|=w,w,u|",
    "prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}|=w,w,w,W|",
    "lop3.b32|=w,w,w,w,m|",
    "fns.b32|=w,w,n,9|",
    // comparison and choice
    "setp.{eq,ne,lt,le,gt,ge}.{u16,s16}|=p,h,H|",
    "setp.{eq,ne,lt,le,gt,ge}.{u32,s32}|=p,w,W|",
    "setp.{eq,ne,lt,le,gt,ge}.{u64,s64}|=p,x,X|",
    "setp.{lo,ls,hi,hs}.u16|=p,h,H|",
    "setp.{lo,ls,hi,hs}.u32|=p,w,W|",
    "setp.{lo,ls,hi,hs}.u64|=p,x,X|",
    "setp.{eq,ne}.{b16}|=p,h,H|",
    "setp.{eq,ne}.{b32}|=p,w,W|",
    "setp.{eq,ne}.{b64}|=p,x,X|",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32|=p,w,f|",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64|=p,x,g|",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16|=p,h,h|",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.bf16|=p,h,h|",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,num,nan}{,.ftz}.f16x2|=p/=p,w,w|",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,num,nan}.bf16x2|=p/=p,w,w|",
    "setp.{lt,ge}.{and,or,xor}.s32|=p/=p,w,W,!p|",
    "setp.{eq,gt}.{and,or,xor}.u64|=p,x,x,!p|",
    "setp.{lt,geu}.{and,or,xor}.f32|=p/=p,w,w,!p|",
    "setp.{lt,geu}.{and,or,xor}.f64|=p/=p,x,x,!p|",
    "setp.{lt,geu}.{and,or,xor}.f16|=p/=p,h,h,!p|",
    "set.{eq,lt,ge}.{u32,s32,f32}.{u16,s16}|=w,h,h|",
    "set.{eq,lt,ge}.{u32,s32,f32}.{u32,s32}|=w,w,W|",
    "set.{eq,lt,ge}.{u32,s32,f32}.{u64,s64}|=w,x,x|",
    "set.{eq,ltu,ge,nan}{,.ftz}.{u32,s32,f32}.f32|=w,w,f|",
    "set.{eq,ltu,ge,nan}.{u32,s32,f32}.f64|=w,x,x|",
    "set.{eq,lt}.{and,or,xor}.u32.s32|=w,w,w,!p|",
    "set.{eq,ltu,ge,nan}{,.ftz}.{u32,s32}.f16|=w,h,h|",
    "set.{eq,ltu,ge,nan}{,.ftz}.{u16,s16,f16}.f16|=h,h,h|",
    "set.{eq,ltu,ge,nan}{,.ftz}.f16x2.f16x2|=w,w,w|",
    "set.{eq,ltu,ge,nan}.{u32,s32}.bf16|=w,h,h|",
    "set.{eq,ltu,ge,nan}.{u16,s16,bf16}.bf16|=h,h,h|",
    "set.{eq,ltu,ge,nan}.bf16x2.bf16x2|=w,w,w|",
    "selp.{b16,u16,s16}|=h,h,H,p|",
    "selp.{b32,u32,s32,f32}|=w,w,w,p|",
    "selp.{b64,u64,s64,f64}|=x,x,x,p|",
    "slct.{b16,u16,s16}.s32|=h,h,h,w|",
    "slct.{b32,u32,s32,f32}.s32|=w,w,w,w|",
    "slct.{b64,u64,s64,f64}.s32|=x,x,x,w|",
    "slct{,.ftz}.{b32,f32}.f32|=w,w,w,w|",
    "slct{,.ftz}.u64.f32|=x,x,x,w|",
    "testp.{finite,infinite,number,notanumber,normal,subnormal}.f32|=p,w|",
    "testp.{finite,infinite,number,notanumber,normal,subnormal}.f64|=p,x|",
    // single
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32|=w,w,f|f",
    "{fma,mad}.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32|=w,w,w,f|f",
    "div.{rn,rz,rm,rp}{,.ftz}.f32|=w,w,f|f",
    "{rcp,sqrt}.{rn,rz,rm,rp}{,.ftz}.f32|=w,w|f",
    "{abs,neg}{,.ftz}.f32|=w,w|f",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32|=w,w,f|f",
    "{add,sub}{,.rn,.rz,.rm,.rp}{,.sat}.f32.{f16,bf16}|=w,h,w|f",
    "fma.{rn,rz,rm,rp}{,.sat}.f32.{f16,bf16}|=w,h,h,w|f",
    "copysign.f32|=w,w,w|f",
    "{min,max}{,.ftz}{,.NaN}.f32|=w,w,w,w|f",
    "{add,sub,mul}.rn{,.ftz}.f32x2|=x,x,x|F",
    "fma.rn{,.ftz}.f32x2|=x,x,x,x|F",
    // double
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}.f64|=x,x,g|g",
    "{fma,mad}.{rn,rz,rm,rp}.f64|=x,x,x,g|g",
    "div.{rn,rz,rm,rp}.f64|=x,x,g|g",
    "{rcp,sqrt}.{rn,rz,rm,rp}.f64|=x,x|g",
    "{abs,neg}.f64|=x,x|g",
    "{min,max}.f64|=x,x,g|g",
    "copysign.f64|=x,x,x|g",
    // halves
    "{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16|=h,h,h|h",
    "{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16x2|=w,w,w|H",
    "fma.rn{,.ftz}{,.sat,.relu}.f16|=h,h,h,h|h",
    "fma.rn{,.ftz}{,.sat,.relu}.f16x2|=w,w,w,w|H",
    "{abs,neg}{,.ftz}.f16|=h,h|h",
    "{abs,neg}{,.ftz}.f16x2|=w,w|H",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16|=h,h,h|h",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16x2|=w,w,w|H",
    "{add,sub,mul}{,.rn}.bf16|=h,h,h|b",
    "{add,sub,mul}{,.rn}.bf16x2|=w,w,w|B",
    "fma.rn{,.relu}.bf16|=h,h,h,h|b",
    "fma.rn{,.relu}.bf16x2|=w,w,w,w|B",
    "{abs,neg}.bf16|=h,h|b",
    "{abs,neg}.bf16x2|=w,w|B",
    "{min,max}{,.NaN}{,.xorsign.abs}.bf16|=h,h,h|b",
    "{min,max}{,.NaN}{,.xorsign.abs}.bf16x2|=w,w,w|B",
    // conversion: integers
    "cvt{,.sat}.{u8,s8,u16,s16,u32,s32}.{u32,s32}|=w,w|",
    "cvt{,.sat}.{u8,s8,u16,s16,u32,s32}.{u64,s64}|=w,x|",
    "cvt{,.sat}.{u8,s8,u16,s16,u32,s32}.{u8,s8,u16,s16}|=w,h|",
    "cvt{,.sat}.{u8,s8,u16,s16}.{u8,s8,u16,s16}|=h,h|",
    "cvt{,.sat}.{u64,s64}.{u8,s8,u16,s16,u32,s32}|=x,w|",
    "cvt{,.sat}.{u16,s16}.{u64,s64}|=h,x|",
    "cvt.pack.sat.{u16,s16}.s32|=w,w,w|",
    "cvt.pack.sat.{u8,s8}.s32.b32|=w,w,w,w|",
    // between integers and floats
    "cvt.{rni,rzi,rmi,rpi}{,.ftz}.{u16,s16,u32,s32}.f32|=w,w|",
    "cvt.{rni,rzi,rmi,rpi}{,.ftz}.{u64,s64}.f32|=x,w|",
    "cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16,u32,s32}.f64|=w,x|",
    "cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f64|=x,x|",
    "cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16,u32,s32}.f16|=w,h|",
    "cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f16|=x,h|",
    "cvt.{rn,rz,rm,rp}{,.sat}.f32.{u16,s16,u32,s32}|=w,w|f",
    "cvt.{rn,rz,rm,rp}.f32.{u64,s64}|=w,x|f",
    "cvt.{rn,rz,rm,rp}.f64.{u16,s16,u32,s32}|=x,w|g",
    "cvt.{rn,rz,rm,rp}.f64.{u64,s64}|=x,x|g",
    "cvt.{rn,rz,rm,rp}.f16.{u16,s16,u32,s32}|=h,w|h",
    "cvt.{rn,rz,rm,rp}.f16.{u64,s64}|=h,x|h",
    // between floats
    "cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32.f64|=w,x|f",
    "cvt{,.ftz}{,.sat}.f64.f32|=x,w|g",
    "cvt{,.ftz}{,.sat}.f32.f16|=w,h|f",
    "cvt{,.sat}.f64.f16|=x,h|g",
    "cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f16.f32|=h,w|h",
    "cvt.{rn,rz,rm,rp}{,.sat}.f16.f64|=h,x|h",
    "cvt.f32.bf16|=w,h|f",
    "cvt.{rn,rz}{,.relu}.bf16.f32|=h,w|b",
    "cvt.{rn,rz}{,.relu}.f16x2.f32|=w,w,w|H",
    "cvt.{rn,rz}{,.relu}.bf16x2.f32|=w,w,w|B",
    "cvt.{rna,rn,rz}.tf32.f32|=w,w|f",
    "cvt.f64.bf16|=x,h|g",
    "cvt.{rn,rz,rm,rp}.bf16.f64|=h,x|b",
    "cvt.rn.bf16.f16|=h,h|b",
    "cvt.rn.f16.bf16|=h,h|h",
    "cvt.{rn,rz,rm,rp}.bf16.{u16,s16,u32,s32}|=h,w|b",
    "cvt.{rn,rz,rm,rp}.bf16.{u64,s64}|=h,x|b",
    "cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16,u32,s32}.bf16|=w,h|",
    "cvt.{rni,rzi,rmi,rpi}.{u64,s64}.bf16|=x,h|",
    "cvt.{rni,rzi,rmi,rpi}.bf16.bf16|=h,h|b",
    "cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.f32.f32|=w,w|f",
    "cvt.{rni,rzi,rmi,rpi}{,.sat}.f64.f64|=x,x|g",
    "cvt.{rni,rzi,rmi,rpi}{,.sat}.f16.f16|=h,h|h",
    "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32|=h,w,w|",
    "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2|=h,w|",
    "cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}|=w,h|H",
    // moves
    "mov.{b16,u16,s16}|=h,H|",
    "mov.{b32,u32,s32}|=w,W|",
    "mov.{b64,u64,s64}|=x,X|",
    "mov.f32|=w,f|",
    "mov.f64|=x,g|",
    "mov.pred|=p,p|",
    "mov.b32|=w,{h;h}|",
    "mov.b64|=x,{w;w}|",
    "mov.b64|=x,{h;h;h;h}|",
    "mov.b32|{=h;=h},w|",
    "mov.b64|{=w;=w},x|",
    "mov.b64|{=h;=h;=h;=h},x|",
};

std::vector<std::string> Split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, by);) parts.push_back(part);
  return parts;
}

}  // namespace

std::vector<std::string> Expand(const std::string& pattern) {
  size_t open = pattern.find('{');
  if (open == std::string::npos) return {pattern};
  size_t close = pattern.find('}', open);
  std::vector<std::string> out;
  std::string choices = pattern.substr(open + 1, close - open - 1) + ",";
  for (size_t at = 0; at < choices.size();) {
    size_t end = choices.find(',', at);
    std::string choice = choices.substr(at, end - at);
    for (const std::string& rest : Expand(pattern.substr(close + 1)))
      out.push_back(pattern.substr(0, open) + choice + rest);
    at = end + 1;
  }
  return out;
}

const std::vector<Form>& AllForms() {
  static const std::vector<Form> forms = [] {
    std::vector<Form> all;
    for (const char* line : kLines) {
      std::vector<std::string> parts = Split(line, '|');
      for (const std::string& mnemonic : Expand(parts[0]))
        all.push_back({mnemonic, Split(parts[1], ','), parts.size() > 2 ? parts[2][0] : '\0'});
    }
    return all;
  }();
  return forms;
}

}  // namespace farcall::cpu_device::differential
