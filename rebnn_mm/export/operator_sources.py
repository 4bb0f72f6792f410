"""Sources of the operators of the domain ``rebnn``, in the text form of ONNX functions (docs/operators.md).

The sums of binary products pass through int32, which says what they are and keeps an optimiser from folding a scale
into the weights before them.
"""

_NUMBERS = """
    zero = Constant <value_float = 0.0> ()
    one = Constant <value_float = 1.0> ()
    two = Constant <value_float = 2.0> ()
"""

_CONSTANTS = (
    """
    zero_i = Constant <value_ints = [0]> ()
    last = Constant <value_ints = [-1]> ()
"""
    + _NUMBERS
    + """
    places = Constant <value = uint8[8] {0, 1, 2, 3, 4, 5, 6, 7}> ()
    one_bit = Constant <value = uint8[1] {1}> ()
    channels_0 = Constant <value_int: int = @channels> ()
    channels_1 = Reshape (channels_0, last)
"""
)

_LAYOUT = """
    per_channel = Constant <value_ints = [1, -1, 1, 1]> ()
    nchw = Constant <value_strings = ["NCHW"]> ()
    layout_0 = Constant <value_string: string = @layout> ()
    layout_1 = Reshape (layout_0, last)
    layouts = Concat <axis = 0> (nchw, layout_1)
    different = Unique (layouts)
    how_many = Size (different)
    two_layouts = Constant <value_int = 2> ()
    is_nhwc = Equal (how_many, two_layouts)
"""


def _write_transpose(result: str, x: str, perm: str) -> str:
    return f"""
    {result} = If (is_nhwc) <
        then_branch = moved () => ({result}_moved) {{ {result}_moved = Transpose <perm = {perm}> ({x}) }},
        else_branch = kept () => ({result}_kept) {{ {result}_kept = Identity ({x}) }}
    >
"""


def _signs(result: str, x: str, compared: bool = True) -> str:
    """Code of -1 and +1 from real numbers, or from bits if not ``compared``."""
    negative = f'{result}_negative = Less ({x}, zero)' if compared else f'{result}_negative = Identity ({x})'
    return f"""
    {negative}
    {result}_float = Cast <to = 1> ({result}_negative)
    {result}_twice = Mul ({result}_float, two)
    {result} = Sub (one, {result}_twice)
"""


def _write_unpacking(result: str, packed: str, rank: int, count: str) -> str:
    """Code of -1 and +1 from bits that are packed along the last of ``rank`` dimensions.

    The new shape is written out: where a dimension is 0 none can be left open. It does not come from a ``Concat``, of
    which ONNX Runtime's optimiser would leave a dimension open again.
    """
    bits = f"""
    {result}_axis = Constant <value_ints = [{rank - 1}]> ()
    {result}_packed = Shape ({packed})
    {result}_factors = Constant <value_ints = {[1] * (rank - 1) + [8]}> ()
    {result}_shape = Mul ({result}_packed, {result}_factors)
    {result}_bytes = Unsqueeze ({packed}, last)
    {result}_shifted = BitShift <direction = "RIGHT"> ({result}_bytes, places)
    {result}_bits = BitwiseAnd ({result}_shifted, one_bit)
    {result}_row = Reshape <allowzero = 1> ({result}_bits, {result}_shape)
    {result}_true = Slice ({result}_row, zero_i, {count}, {result}_axis)
"""
    return bits + _signs(result, f'{result}_true', compared=False)


_REAL_INPUT = (
    _write_transpose('X_map', 'X', '[0, 3, 1, 2]')
    + """
    shift_map = Reshape (shift, per_channel)
    X_shifted = Add (X_map, shift_map)
"""
    + _signs('x', 'X_shifted')
)

_PACKED_INPUT = (
    _write_unpacking('x_last', 'P', 4, 'channels_1')
    + """
    x = Transpose <perm = [0, 3, 1, 2]> (x_last)
"""
)

_SUMS = (
    _write_unpacking('w_last', 'W', 4, 'channels_1')
    + """
    w = Transpose <perm = [0, 3, 1, 2]> (w_last)
    two_i = Constant <value_ints = [2]> ()
    four_i = Constant <value_ints = [4]> ()
    pads_only = Constant <value_ints: ints = @pads> ()
    pads_before = Slice (pads_only, zero_i, two_i)
    pads_behind = Slice (pads_only, two_i, four_i)
    unpadded = Constant <value_ints = [0, 0]> ()
    all_pads = Concat <axis = 0> (unpadded, pads_before, unpadded, pads_behind)
    pad_int = Constant <value_int: int = @pad_value> ()
    pad_float = Cast <to = 1> (pad_int)
    x_padded = Pad (x, all_pads, pad_float)
    sums = Conv <strides: ints = @strides, dilations: ints = @dilations, group: int = @group> (x_padded, w)
    sums_int = Cast <to = 6> (sums)
    a = Cast <to = 1> (sums_int)
    scale_map = Reshape (scale, per_channel)
    y_scaled = Mul (a, scale_map)
"""
)

_PLAIN_OUTPUT = """
    bias_map = Reshape (bias, per_channel)
    y = Add (y_scaled, bias_map)
""" + _write_transpose('Y', 'y', '[0, 2, 3, 1]')

_BLOCK_STEPS = (
    _write_transpose('R_map', 'R', '[0, 3, 1, 2]')
    + """
    mul_map = Reshape (mul, per_channel)
    add_map = Reshape (add, per_channel)
    pre_map = Reshape (pre, per_channel)
    slope_map = Reshape (slope, per_channel)
    post_map = Reshape (post, per_channel)
    y_mul = Mul (y_scaled, mul_map)
    y_norm = Add (y_mul, add_map)
    y_sum = Add (y_norm, R_map)
    y_pre = Add (y_sum, pre_map)
    y_above = Greater (y_pre, zero)
    y_slope = Mul (y_pre, slope_map)
    y_act = Where (y_above, y_pre, y_slope)
"""
)

_SUMMAND = '    y = Add (y_act, post_map)\n'
_CLIPPING = """
    y_post = Add (y_act, post_map)
    lowest = Constant <value_float: float = @low> ()
    highest = Constant <value_float: float = @high> ()
    y = Clip (y_post, lowest, highest)
"""

# The pads are a tensor, not a list of numbers, which ONNX Runtime 1.17 does not take for pads.
_PACKED_OUTPUT = """
    next_shift_map = Reshape (next_shift, per_channel)
    y_shifted = Add (y, next_shift_map)
    y_negative = Less (y_shifted, zero)
    y_bits = Cast <to = 6> (y_negative)
    y_last = Transpose <perm = [0, 2, 3, 1]> (y_bits)
    out_channels = Shape (next_shift)
    missing_negative = Neg (out_channels)
    eight = Constant <value_int = 8> ()
    missing = Mod (missing_negative, eight)
    filling = Constant <value_ints = [0, 0, 0, 0, 0, 0, 0]> ()
    y_pads = Concat <axis = 0> (filling, missing)
    zero_bit = Constant <value = int32 {0}> ()
    y_filled = Pad (y_last, y_pads, zero_bit)
    bits_shape = Shape (y_filled)
    to_bytes = Constant <value_ints = [1, 1, 1, 8]> ()
    bytes_shape = Div (bits_shape, to_bytes)
    one_more = Constant <value = int64[2] {0, 1}> ()
    byte_shape = Pad (bytes_shape, one_more, eight)
    y_rows = Reshape <allowzero = 1> (y_filled, byte_shape)
    place_values = Constant <value = int32[8, 1] {1, 2, 4, 8, 16, 32, 64, 128}> ()
    y_sums = MatMul (y_rows, place_values)
    y_bytes = Squeeze (y_sums, last)
"""

_CONV_ATTRIBUTES = (
    'channels, strides: ints = [1, 1], dilations: ints = [1, 1], pads: ints = [0, 0, 0, 0], group: int = 1, '
    'pad_value: int = 0, layout: string = "NCHW"'
)
_CLIP_ATTRIBUTES = f'low, high, {_CONV_ATTRIBUTES}'
_BLOCK_INPUTS = 'scale, mul, add, R, pre, slope, post, next_shift'

_LINEAR = (
    """
    X_shifted = Add (X, shift)
"""
    + _signs('x', 'X_shifted')
    + _write_unpacking('w_rows', 'W', 2, 'channels_1')
    + """
    w = Transpose <perm = [1, 0]> (w_rows)
    sums = MatMul (x, w)
    sums_int = Cast <to = 6> (sums)
    a = Cast <to = 1> (sums_int)
    y_scaled = Mul (a, scale)
    Y = Add (y_scaled, bias)
"""
)

_EMBEDDING = (
    """
    W_rows = Gather <axis = 0> (W, ids)
    scale_rows = Gather <axis = 0> (scale, ids)
    bytes = Unsqueeze (W_rows, last)
    shifted = BitShift <direction = "RIGHT"> (bytes, places)
    bits = BitwiseAnd (shifted, one_bit)
    ids_shape = Shape (ids)
    row_bytes = Shape <start = 1> (W)
    eight = Constant <value_ints = [8]> ()
    row_bits = Mul (row_bytes, eight)
    row_shape = Concat <axis = 0> (ids_shape, row_bits)
    rows = Reshape <allowzero = 1> (bits, row_shape)
    signs_true = Slice (rows, zero_i, channels_1, last)
"""
    + _signs('signs', 'signs_true', compared=False)
    + """
    scale_each = Unsqueeze (scale_rows, last)
    Y = Mul (signs, scale_each)
"""
)

_ATTENTION = (
    _signs('q_rows', 'Q')
    + _signs('k_rows', 'K')
    + _signs('v_rows', 'V')
    + """
    q = Transpose <perm = [0, 2, 1, 3]> (q_rows)
    k = Transpose <perm = [0, 2, 3, 1]> (k_rows)
    v = Transpose <perm = [0, 2, 1, 3]> (v_rows)
    scores = MatMul (q, k)
    tie_int = Constant <value_int: int = @tie> ()
    tie_float = Cast <to = 1> (tie_int)
    half = Constant <value_float = 0.5> ()
    least = Sub (half, tie_float)
    near = Greater (scores, least)
    attended = And (near, mask)
    a = Cast <to = 1> (attended)
    sums = MatMul (a, v)
    sums_last = Transpose <perm = [0, 2, 1, 3]> (sums)
    sums_int = Cast <to = 6> (sums_last)
    Y = Cast <to = 1> (sums_int)
"""
)

_STEM = (
    """
    last = Constant <value_ints = [-1]> ()
"""
    + _LAYOUT
    + """
    mul_map = Reshape (mul, per_channel)
    add_map = Reshape (add, per_channel)
    conv = Conv <kernel_shape = [7, 7], strides = [2, 2], pads = [3, 3, 3, 3]> (X, W)
    conv_mul = Mul (conv, mul_map)
    conv_add = Add (conv_mul, add_map)
    y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (conv_add)
"""
    + _write_transpose('Y', 'y', '[0, 2, 3, 1]')
)

_AVERAGE_POOL = (
    """
    none = Constant <value_ints = [0, 0]> ()
    twos = Constant <value_ints = [2, 2]> ()
    rows_columns = Constant <value_ints = [1, 2]> ()
    ceil = Constant <value_int: int = @ceil_mode> ()
    size = Shape <start = 1, end = 3> (X)
    odd = Mod (size, twos)
    missing = Mul (odd, ceil)
    before = Constant <value_ints = [0, 0, 0, 0, 0]> ()
    behind = Constant <value_ints = [0]> ()
    pads = Concat <axis = 0> (before, missing, behind)
    size_padded = Add (size, missing)
    left_over = Mod (size_padded, twos)
    end = Sub (size_padded, left_over)
    batch = Constant <value_ints = [1]> ()
    ones_shape = Concat <axis = 0> (batch, size, batch)
    ones = ConstantOfShape <value = float[1] {1.0}> (ones_shape)
    right = Constant <value_ints = [0, 1]> ()
    below = Constant <value_ints = [1, 0]> ()
    both = Constant <value_ints = [1, 1]> ()
"""
    + ''.join(
        f"""
    {of}_padded = Pad ({of}, pads)
    {of}_a = Slice ({of}_padded, none, end, rows_columns, twos)
    {of}_b = Slice ({of}_padded, right, end, rows_columns, twos)
    {of}_c = Slice ({of}_padded, below, end, rows_columns, twos)
    {of}_d = Slice ({of}_padded, both, end, rows_columns, twos)
    {of}_left = Add ({of}_a, {of}_c)
    {of}_right = Add ({of}_b, {of}_d)
    {of}_sum = Add ({of}_left, {of}_right)
"""
        for of in ('X', 'ones')
    )
    + """
    Y = Div (X_sum, ones_sum)
"""
)

_ROI_ALIGN = """
    x = Transpose <perm = [0, 3, 1, 2]> (X)
    y = RoiAlign <
        output_height: int = @output_height, output_width: int = @output_width, sampling_ratio: int = @sampling_ratio,
        spatial_scale: float = @spatial_scale,
        coordinate_transformation_mode: string = @coordinate_transformation_mode
    > (x, rois, batch_indices)
    Y = Transpose <perm = [0, 2, 3, 1]> (y)
"""

_UPSAMPLE_ADD = """
    scales = Constant <value_floats = [1.0, 2.0, 2.0, 1.0]> ()
    twice = Resize <
        mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"
    > (X, , scales)
    Y = Add (twice, R)
"""

_CONV = _CONSTANTS + _LAYOUT


def _write_block(packed: bool, clipped: bool) -> tuple[str, str]:
    attributes = _CLIP_ATTRIBUTES if clipped else _CONV_ATTRIBUTES
    inputs, bits = ('P, W', 'P_next') if packed else ('X, W, shift', 'P')
    start = _CONV + (_PACKED_INPUT if packed else _REAL_INPUT) + _SUMS + _BLOCK_STEPS
    end = (_CLIPPING if clipped else _SUMMAND) + _write_transpose('Y', 'y', '[0, 2, 3, 1]') + _PACKED_OUTPUT
    signature = f'<{attributes}> ({inputs}, {_BLOCK_INPUTS}) => (Y, {bits})'
    return signature, f'{start}{end}    {bits} = Cast <to = 2> (y_bytes)\n'


SOURCES = {
    'BinaryConv': (
        f'<{_CONV_ATTRIBUTES}> (X, W, shift, scale, bias) => (Y)',
        _CONV + _REAL_INPUT + _SUMS + _PLAIN_OUTPUT,
    ),
    'BinaryBlock': _write_block(packed=False, clipped=False),
    'PackedBinaryConv': (
        f'<{_CONV_ATTRIBUTES}> (P, W, scale, bias) => (Y)',
        _CONV + _PACKED_INPUT + _SUMS + _PLAIN_OUTPUT,
    ),
    'PackedBinaryBlock': _write_block(packed=True, clipped=False),
    'BinaryClipBlock': _write_block(packed=False, clipped=True),
    'PackedBinaryClipBlock': _write_block(packed=True, clipped=True),
    'BinaryLinear': ('<channels> (X, W, shift, scale, bias) => (Y)', _CONSTANTS + _LINEAR),
    'BinaryEmbedding': ('<channels> (ids, W, scale) => (Y)', _CONSTANTS + _EMBEDDING),
    'BinaryAttention': ('<tie: int = 1> (Q, K, V, mask) => (Y)', _NUMBERS + _ATTENTION),
    'RealStem': ('<layout: string = "NCHW", precision: string = "float32"> (X, W, mul, add) => (Y)', _STEM),
    'RealAveragePool': ('<ceil_mode: int = 0> (X) => (Y)', _AVERAGE_POOL),
    'RealRoiAlign': (
        '<output_height, output_width, spatial_scale, sampling_ratio: int = 0, '
        'coordinate_transformation_mode: string = "half_pixel"> (X, rois, batch_indices) => (Y)',
        _ROI_ALIGN,
    ),
    'RealUpsampleAdd': ('(X, R) => (Y)', _UPSAMPLE_ADD),
}
"""Signature and body of the function of each operator, by its name."""
