// Rows of a packed table. Plain C++ for every processor: the time goes into writing the output.
#include <cstring>

#include "error.h"
#include "geometry.h"

namespace rebnn {
namespace {

// A number whose sign is turned where the bit is 1: what a product with -1 gives, too.
void Unpack(const uint8_t* bits, int64_t channels, float scale, float* y) {
  uint32_t number;
  std::memcpy(&number, &scale, sizeof number);
  int64_t c = 0;
  for (; c + 8 <= channels; c += 8) {
    uint32_t row[8];
    const uint32_t byte = bits[c / 8];
    for (int i = 0; i < 8; ++i) row[i] = number ^ ((byte >> i & 1) << 31);
    std::memcpy(y + c, row, sizeof row);
  }
  for (; c < channels; ++c) {
    const uint32_t value = number ^ (static_cast<uint32_t>(bits[c / 8] >> c % 8 & 1) << 31);
    std::memcpy(y + c, &value, sizeof value);
  }
}

}  // namespace
}  // namespace rebnn

rebnn_status rebnn_embedding_run(const rebnn_embedding_io* io) {
  using rebnn::Fail;
  const auto name = "rebnn_embedding_run";
  if (!io) return Fail(REBNN_INVALID_ARGUMENT, "%s: io is NULL.", name);
  if (io->rows < 1 || io->rows > rebnn::kMaxSide || io->channels < 1 || io->channels > rebnn::kMaxSide) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: a table of %lld rows of %lld channels; both must be from 1 to %lld.",
                name, static_cast<long long>(io->rows), static_cast<long long>(io->channels),
                static_cast<long long>(rebnn::kMaxSide));
  }
  const int64_t real = sizeof(float);
  if (io->count < 0 || rebnn::Product({io->count, io->channels, real}) < 0) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: count is %lld; it must not be negative, nor more than memory can hold.",
                name, static_cast<long long>(io->count));
  }
  if (io->count == 0) return REBNN_OK;
  if (!io->table || !io->scale || !io->ids || !io->y) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: %s is NULL.", name,
                !io->table ? "table" : !io->scale ? "scale" : !io->ids ? "ids" : "y");
  }
  if (rebnn_status status = rebnn::CheckAligned(name, {{"scale", io->scale}, {"ids", io->ids}, {"y", io->y}})) {
    return status;
  }
  for (int64_t i = 0; i < io->count; ++i) {
    if (io->ids[i] < -io->rows || io->ids[i] >= io->rows) {
      return Fail(REBNN_INVALID_ARGUMENT, "%s: id %lld at position %lld is not one of the table's %lld rows.", name,
                  static_cast<long long>(io->ids[i]), static_cast<long long>(i), static_cast<long long>(io->rows));
    }
  }
  const int64_t row_bytes = rebnn::CeilDiv(io->channels, 8);
  for (int64_t i = 0; i < io->count; ++i) {
    const int64_t row = io->ids[i] < 0 ? io->ids[i] + io->rows : io->ids[i];
    rebnn::Unpack(io->table + row * row_bytes, io->channels, io->scale[row], io->y + i * io->channels);
  }
  return REBNN_OK;
}
