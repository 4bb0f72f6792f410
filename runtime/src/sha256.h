// SHA-256, by which a packed file says that it is whole (FIPS 180-4).
#ifndef REBNN_SRC_SHA256_H_
#define REBNN_SRC_SHA256_H_

#include <cstddef>
#include <cstdint>

namespace rebnn {

// Writes 64 lower-case hexadecimal digits, without a zero at the end.
void Sha256(const uint8_t* data, size_t bytes, char* digits);

}  // namespace rebnn

#endif  // REBNN_SRC_SHA256_H_
