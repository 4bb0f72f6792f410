#include "sha256.h"

#include <cstring>

namespace rebnn {
namespace {

// The first bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t Turned(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

void AddBlock(const uint8_t* block, uint32_t* hash) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i, block += 4) {
    w[i] = uint32_t{block[0]} << 24 | uint32_t{block[1]} << 16 | uint32_t{block[2]} << 8 | block[3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (Turned(a, 7) ^ Turned(a, 18) ^ a >> 3) + w[i - 7] + (Turned(b, 17) ^ Turned(b, 19) ^ b >> 10);
  }
  uint32_t s[8];
  std::memcpy(s, hash, sizeof s);
  for (int i = 0; i < 64; ++i) {
    const uint32_t chosen = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const uint32_t most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    const uint32_t first = s[7] + (Turned(s[4], 6) ^ Turned(s[4], 11) ^ Turned(s[4], 25)) + chosen + kRound[i] + w[i];
    const uint32_t second = (Turned(s[0], 2) ^ Turned(s[0], 13) ^ Turned(s[0], 22)) + most;
    std::memmove(s + 1, s, 7 * sizeof *s);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; ++i) hash[i] += s[i];
}

}  // namespace

void Sha256(const uint8_t* data, size_t bytes, char* digits) {
  // Those of the square roots of the first 8 primes.
  uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint64_t bits = uint64_t{bytes} * 8;
  for (; bytes >= 64; data += 64, bytes -= 64) AddBlock(data, hash);
  uint8_t last[128] = {};
  std::memcpy(last, data, bytes);
  last[bytes] = 0x80;
  const size_t end = bytes < 56 ? 64 : 128;
  for (int i = 0; i < 8; ++i) last[end - 1 - i] = static_cast<uint8_t>(bits >> 8 * i);
  for (size_t at = 0; at < end; at += 64) AddBlock(last + at, hash);
  for (int i = 0; i < 64; ++i) digits[i] = "0123456789abcdef"[hash[i / 8] >> (28 - i % 8 * 4) & 15];
}

}  // namespace rebnn
