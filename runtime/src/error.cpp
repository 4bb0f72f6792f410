#include "error.h"

#include <cstdarg>
#include <cstdio>

namespace {

thread_local char sentence[512] = "";

}  // namespace

namespace rebnn {

rebnn_status Fail(rebnn_status status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(sentence, sizeof sentence, format, values);
  va_end(values);
  return status;
}

}  // namespace rebnn

const char* rebnn_last_error(void) { return sentence; }
