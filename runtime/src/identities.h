// Steps after a binary convolution that change nothing.
#ifndef REBNN_SRC_IDENTITIES_H_
#define REBNN_SRC_IDENTITIES_H_

#include "rebnn.h"

namespace rebnn {

// Leaves out steps of a run that change no bit of what comes to them; those of `io` are all the steps there are but for
// the residual, which may come later.
void SkipIdentities(int64_t in_channels, int64_t out_channels, rebnn_conv_io* io);

}  // namespace rebnn

#endif  // REBNN_SRC_IDENTITIES_H_
