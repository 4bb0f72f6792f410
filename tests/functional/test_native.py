import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from rebnn_mm import native_library
from rebnn_mm.functional import native, sign
from rebnn_mm.functional.native import linear_sign_sums, pack_signs, sign_sums
from rebnn_mm.functional.sign_product import Geometry, sign_product
from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.methods import rebnn
from tests.scripts import run_code

needs_kernels = pytest.mark.skipif(native.library() is None, reason='the kernels are not compiled here')


def reference(x, weight, *geometry):
    return functional.conv2d(sign(x), sign(weight), None, *geometry)


@needs_kernels
@pytest.mark.parametrize('threads', [1, 3])
@pytest.mark.parametrize(
    ('channels', 'out', 'groups', 'kernel', 'stride', 'padding', 'dilation'),
    [
        (64, 64, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
        (70, 12, 2, (3, 1), (2, 1), (1, 0), (1, 1)),
        (5, 3, 1, (1, 3), (1, 2), (0, 2), (1, 2)),
        (9, 9, 9, (2, 2), (1, 1), (0, 0), (2, 2)),
    ],
)
def test_sums_equal_a_convolution_of_signs(channels, out, groups, kernel, stride, padding, dilation, threads):
    torch.manual_seed(0)
    x = torch.randn(5, channels, 9, 8)
    x[0, 0] = torch.tensor([0.0, -0.0, float('nan'), float('inf'), -float('inf'), 1e-40, -1e-40, 1.0])
    weight, geometry = torch.randn(out, channels // groups, *kernel), (stride, padding, dilation, groups)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.equal(sign_sums(x, weight, *geometry), reference(x, weight, *geometry))
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def meeting(monkeypatch):
    """Every task of the kernels waits for one on another thread, until two have met; how many tasks there were."""
    barrier, tasks, made = threading.Barrier(2, timeout=60), [], native._TASK

    def task(address):
        function = made(address)

        def run(arg, index):
            tasks.append(index)
            if not met.is_set():
                barrier.wait()
                met.set()
            function(arg, index)

        return run

    met = threading.Event()
    monkeypatch.setattr(native, '_TASK', task)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield tasks
    torch.set_num_threads(before)


@needs_kernels
def test_one_image_is_shared_out_to_threads(meeting):
    x, weight = torch.randn(1, 128, 24, 24), torch.randn(128, 128, 3, 3)
    plain = ((1, 1), (1, 1), (1, 1), 1)
    assert torch.equal(sign_sums(x, weight, *plain), reference(x, weight, *plain))
    assert len(meeting) > 2


@needs_kernels
def test_rows_of_a_linear_layer_are_shared_out_to_threads(meeting):
    x, weight = torch.randn(135, 768), torch.randn(768, 768)
    assert torch.equal(linear_sign_sums(x, weight), sign(x) @ sign(weight).t())
    assert len(meeting) > 2


@needs_kernels
def test_threads_of_the_caller_share_the_pool():
    x, weight = torch.randn(1, 128, 24, 24), torch.randn(128, 128, 3, 3)
    plain = ((1, 1), (1, 1), (1, 1), 1)
    expected = reference(x, weight, *plain)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with ThreadPoolExecutor(4) as pool:
            sums = list(pool.map(lambda _: sign_sums(x, weight, *plain), range(16), timeout=120))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(each, expected) for each in sums)


@needs_kernels
@pytest.mark.parametrize('threads', [1, 3])
@pytest.mark.parametrize('shape', [(7, 5), (2, 3, 70), (64,)])
def test_sums_equal_a_product_of_signs(shape, threads):
    torch.manual_seed(0)
    x, weight = torch.randn(shape), torch.randn(9, shape[-1])
    x.view(-1)[:5] = torch.tensor([0.0, -0.0, float('nan'), float('inf'), -float('inf')])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.equal(linear_sign_sums(x, weight), sign(x) @ sign(weight).t())
        assert torch.equal(linear_sign_sums(x.half(), weight.half()), (sign(x) @ sign(weight).t()).half())
    finally:
        torch.set_num_threads(before)


@needs_kernels
def test_a_linear_layer_trains_to_the_same_values_without_the_kernels(without_kernels):
    torch.manual_seed(0)
    layer = BinaryLinear(70, 9, activation='BinaryRSign')
    layer.activation_quantizer.shift.data.normal_()
    x = torch.randn(2, 5, 70, requires_grad=True)

    def trained():
        y = layer(x)
        return y.detach(), *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])

    for ours, expected in zip(trained(), without_kernels(trained), strict=True):
        assert torch.equal(ours, expected)


@needs_kernels
def test_takes_maps_in_any_order_of_memory():
    torch.manual_seed(0)
    x, weight = torch.randn(2, 8, 5, 5), torch.randn(4, 8, 3, 3)
    plain = ((1, 1), (1, 1), (1, 1), 1)
    expected = reference(x, weight, *plain)
    assert torch.equal(sign_sums(x.contiguous(memory_format=torch.channels_last), weight, *plain), expected)
    assert torch.equal(sign_sums(x[:, :, ::2], weight, *plain), reference(x[:, :, ::2], weight, *plain))


@needs_kernels
def test_gives_the_type_that_pytorch_would():
    x, weight = torch.ones(1, 300, 1, 1), torch.ones(1, 300, 1, 1)
    with torch.autocast('cpu', torch.bfloat16):
        under = sign_sums(x, weight, (1, 1), (0, 0), (1, 1), 1)
        assert under.dtype == functional.conv2d(x, weight).dtype == torch.bfloat16
        assert linear_sign_sums(x[..., 0, 0], weight[..., 0, 0]).dtype == torch.bfloat16
    half = sign_sums(x.half(), weight.half(), (1, 1), (0, 0), (1, 1), 1)
    assert half.dtype == torch.float16 and half.item() == 300


@pytest.mark.parametrize(
    'x',
    [torch.ones(1, 2, 3, 3, dtype=torch.float64), torch.ones(0, 2, 3, 3), torch.ones(1, 2, 1, 1)],
    ids=['float64', 'no image', 'kernel larger than the image'],
)
def test_leaves_to_pytorch_what_the_kernels_do_otherwise(x):
    weight = torch.ones(1, 2, 3, 3, dtype=x.dtype)
    assert sign_sums(x, weight, (1, 1), (0, 0), (1, 1), 1) is None


@needs_kernels
def test_a_trace_and_a_fake_tensor_hold_pytorchs_own_operators():
    conv = BinaryConv2d(8, 4, 3, bias=False, activation='BinarySign').eval()
    x = torch.randn(1, 8, 5, 5)
    with torch.no_grad():
        traced = torch.jit.trace(conv, x)
        assert torch.equal(traced(-x), conv(-x))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        assert conv(mode.from_tensor(x)).shape == (1, 4, 3, 3)


@needs_kernels
def test_bits_follow_the_format():
    weight = torch.tensor([1.0, -0.0, -1.0, 2.0, 3.0, 4.0, 5.0, -6.0, -7.0, 8.0]).view(1, 10, 1, 1)
    assert pack_signs(weight).tolist() == [[[[0b10000100, 0b00000001]]]]


@pytest.fixture
def without_kernels(monkeypatch):
    """Runs a function as PyTorch computes it alone."""

    def run(function, *args):
        with monkeypatch.context() as patch:
            patch.setattr(native, 'library', lambda: None)
            return function(*args)

    return run


WEIGHTS = [(3, 70), (5, 4, 3, 3), (2, 1, 1, 1), (130,)]


def latent_weight(shape):
    torch.manual_seed(0)
    weight = torch.randn(shape)
    weight.view(-1)[: min(4, weight.numel())] = torch.tensor([0.0, -0.0, 1.0, -1.0])[: weight.numel()]
    return weight


@needs_kernels
@pytest.mark.parametrize('threads', [1, 3])
@pytest.mark.parametrize('shape', WEIGHTS)
def test_signs_are_those_of_pytorch(shape, threads, without_kernels):
    x = latent_weight(shape)
    x.view(-1)[-1] = float('nan')
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.equal(native.signs(x), without_kernels(sign, x))
    finally:
        torch.set_num_threads(before)


def rule(weight, grad, alpha, gamma, mask):
    """A step of the rule, from measuring to flips."""
    grad, latent = rebnn.join_channels([grad]), rebnn.join_channels([weight])
    channels = rebnn.measure_channels(grad, latent, alpha)
    rebnn.add_reconstruction_(grad, latent, alpha, gamma, mask)
    now = rebnn.join_channels([weight - 0.5 * grad.values.view_as(weight)])
    changed_before = torch.rand(weight.numel()) < 0.5
    return (*channels[:5], grad.values, *rebnn.flips_since(channels.negative, now, changed_before))


@needs_kernels
@pytest.mark.parametrize('mask', [True, False])
@pytest.mark.parametrize('threads', [1, 3])
@pytest.mark.parametrize('shape', [shape for shape in WEIGHTS if len(shape) > 1])
def test_the_rule_is_that_of_pytorch(shape, threads, mask, without_kernels):
    weight = latent_weight(shape)
    grad, alpha, gamma = torch.randn(shape), torch.rand(shape[0]) + 0.1, torch.rand(shape[0])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(1)
        found = rule(weight, grad, alpha, gamma, mask)
    finally:
        torch.set_num_threads(before)
    torch.manual_seed(1)
    for ours, expected in zip(found, without_kernels(rule, weight, grad, alpha, gamma, mask), strict=True):
        torch.testing.assert_close(ours, expected)


@needs_kernels
@pytest.mark.parametrize('channels', [5, 1], ids=['a scale each', 'one scale'])
def test_gradients_of_signs_and_their_scale_are_those_of_pytorch(channels, without_kernels):
    codes, alpha = sign(torch.randn(5, 4, 3, 3)).requires_grad_(), (torch.rand(channels) + 0.1).requires_grad_()
    x, upstream = sign(torch.randn(2, 4, 6, 6)), torch.randn(2, 5, 4, 4)

    def gradients():
        product = sign_product(x, None, codes, alpha, Geometry((1, 1), (0, 0), (1, 1), 1))
        return torch.autograd.grad(product, (codes, alpha), upstream)

    for ours, expected in zip(gradients(), without_kernels(gradients), strict=True):
        torch.testing.assert_close(ours, expected)


VALUES = [0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 1.0000001, -1.0000001, 3e38, -3e38]
UNUSUAL = [*VALUES, float('nan'), float('inf'), -float('inf')]


def every_pair(values: list[float], others: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """A channel for each of the first, with each of the others in it."""
    first = torch.tensor(values)[:, None].expand(len(values), len(others)).contiguous()
    return first, torch.tensor(others).repeat(len(values), 1)


@needs_kernels
@pytest.mark.parametrize('mask', [True, False])
@pytest.mark.parametrize('repeats', [1, 3], ids=['fewer than a register', 'more'])
def test_nan_infinity_and_denormals_give_what_the_formulas_do(mask, repeats):
    latent, grad = every_pair(UNUSUAL, UNUSUAL * repeats)
    alpha, gamma = torch.linspace(0.1, 2, len(latent)), torch.linspace(0, 1, len(latent))
    wide_alpha, wide_gamma = alpha[:, None], gamma[:, None]
    passes = latent.abs() <= 1 if mask else torch.ones_like(latent, dtype=torch.bool)
    signs = torch.where(latent < 0, -1.0, 1.0)
    residual = latent - wide_alpha * signs

    def same(ours, expected):
        torch.testing.assert_close(ours, expected, equal_nan=True)

    same(native.signs(latent), signs)
    same(native.scaled_sign_gradient(grad, latent, alpha)[0], grad * wide_alpha)
    for one in (latent, grad):  # every channel of the gradient has a NaN, only one of the latent weight
        _, grad_alpha = native.scaled_sign_gradient(one, latent, alpha)
        same(grad_alpha, (one * signs).sum(dim=1))
        negative, largest, task, magnitude, distance = rebnn.measure_by_kernel(one, latent, alpha)
        assert torch.equal(negative, latent < 0)
        same(largest, one.abs().amax(dim=1))
        same(task, one.norm(dim=1))
        same(magnitude, latent.abs().sum(dim=1))
        same(distance, residual.norm(dim=1))
    finished = grad.clone()
    assert rebnn.add_by_kernel_(finished, latent, alpha, gamma, mask)
    same(finished, torch.where(passes, grad, 0) + wide_gamma * residual)
    changed, flips, backs = rebnn.count_by_kernel(latent, grad < 0, grad > 0)
    assert torch.equal(changed, (grad < 0) != (latent < 0))
    assert torch.equal(flips, changed.sum(dim=1)) and torch.equal(backs, (changed & (grad > 0)).sum(dim=1))


@needs_kernels
@pytest.mark.parametrize('where', [0, 20, 34])
def test_one_nan_in_a_gradient_is_measured(where):
    grad = torch.randn(2, 35)
    grad[0, where] = float('nan')
    _, largest, task, *_ = rebnn.measure_by_kernel(grad, torch.randn(2, 35), torch.ones(2))
    assert largest.isnan().tolist() == task.isnan().tolist() == [True, False]


class Subclass(torch.Tensor):
    """A tensor that is not PyTorch's own."""


def unaligned(tensor: torch.Tensor) -> torch.Tensor:
    memory = bytearray(tensor.numel() * tensor.element_size() + 1)
    return torch.frombuffer(memory, dtype=tensor.dtype, offset=1).view(tensor.shape)


def every_second(tensor: torch.Tensor) -> torch.Tensor:
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


OTHERWISE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    'float64': torch.Tensor.double,
    'float16': torch.Tensor.half,
    'bfloat16': torch.Tensor.bfloat16,
    'whole numbers': torch.Tensor.int,
    'complex': lambda t: t.to(torch.complex64),
    'without values': lambda t: t.to('meta'),
    'sparse': torch.Tensor.to_sparse,
    'subclass': lambda t: t.as_subclass(Subclass),
    'negated when read': torch._neg_view,
    'zeros without memory': lambda t: torch._efficientzerotensor(t.shape),
    'not contiguous': every_second,
    'one value for all': lambda t: torch.ones(()).expand(t.shape),
}
SIZES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    'one': lambda t: torch.ones(1, dtype=t.dtype),
    'first alone': lambda t: t[:1].clone(),
    'none': lambda t: t[:0],
    'scalar': lambda t: torch.ones((), dtype=t.dtype),
    'one more': lambda t: torch.cat([t, t[:1]]),
    'flat': lambda t: t.flatten()[:-1].clone(),
    'another dimension': lambda t: t[None],
}
LATENT_FUNCTIONS = {
    'scaled_sign_gradient': (native.scaled_sign_gradient, 3, []),
    'measure_by_kernel': (rebnn.measure_by_kernel, 3, []),
    'add_by_kernel_': (rebnn.add_by_kernel_, 4, [True]),
}


@needs_kernels
@pytest.mark.parametrize('how', [*OTHERWISE, *SIZES, 'unaligned', 'differentiable'])
@pytest.mark.parametrize('name', LATENT_FUNCTIONS)
def test_latent_weights_of_other_memory_or_size_are_left_to_pytorch(name, how):
    function, tensors, rest = LATENT_FUNCTIONS[name]
    made = [torch.randn(6, 4), torch.randn(6, 4), torch.rand(6), torch.rand(6)][:tensors]
    others = {**OTHERWISE, **SIZES, 'unaligned': unaligned, 'differentiable': lambda t: t.clone().requires_grad_()}
    before = made[0].clone()
    for i in range(tensors):
        given = list(made)
        given[i] = others[how](made[i])
        assert not function(*given, *rest), i
    assert torch.equal(made[0], before)
    assert function(*made, *rest)


@needs_kernels
@pytest.mark.parametrize('how', [*OTHERWISE, *SIZES])
def test_flags_of_other_memory_or_size_are_left_to_pytorch(how):
    if how in ('negated when read', 'zeros without memory'):
        pytest.skip('a bool has neither')
    made = [torch.randn(6, 4), torch.rand(6, 4) < 0.5, torch.rand(6, 4) < 0.5]
    for i in range(3):
        given = list(made)
        given[i] = {**OTHERWISE, **SIZES}[how](made[i])
        assert rebnn.count_by_kernel(*given) is None, i
    assert rebnn.count_by_kernel(*made) is not None


@needs_kernels
@pytest.mark.parametrize('how', [*OTHERWISE, 'unaligned'])
def test_signs_of_other_memory_are_left_to_pytorch(how):
    x = torch.randn(6, 4)
    assert native.signs({**OTHERWISE, 'unaligned': unaligned}[how](x)) is None
    assert native.signs(x.requires_grad_()) is not None


CONVOLUTION = (1, 1), (0, 0), (1, 1), 1


@needs_kernels
@pytest.mark.parametrize('how', [*OTHERWISE, *SIZES])
def test_products_of_other_memory_or_size_are_right_or_left_to_pytorch(how):
    change = {**OTHERWISE, **SIZES}[how]
    made = [torch.randn(2, 6, 5, 5), torch.randn(4, 6, 3, 3)]
    rows = [torch.randn(2, 6), torch.randn(4, 6)]
    for i in range(2):
        given, flat = list(made), list(rows)
        given[i], flat[i] = change(made[i]), change(rows[i])
        sums, products = sign_sums(*given, *CONVOLUTION), linear_sign_sums(*flat)
        if sums is not None:
            expected = reference(*given, *CONVOLUTION)
            assert sums.dtype == expected.dtype and torch.equal(sums, expected), i
        if products is not None:
            expected = sign(flat[0]) @ sign(flat[1]).t()
            assert products.dtype == expected.dtype and torch.equal(products, expected), i


@needs_kernels
@pytest.mark.parametrize('place', ['input', 'weight'])
def test_a_sign_below_the_smallest_float32_is_not_lost(place):
    tiny, one = torch.full((1, 1, 1, 1), -1e-60, dtype=torch.float64), torch.ones(1, 1, 1, 1)
    x, weight = (tiny, one) if place == 'input' else (one, tiny)
    assert sign_sums(x, weight, *CONVOLUTION) is None
    assert linear_sign_sums(x[..., 0, 0], weight[..., 0, 0]) is None
    assert sign(tiny).item() == -1
    conv = BinaryConv2d(1, 1, 1, bias=False, activation='BinarySign', keep_real=False, dtype=torch.float64).eval()
    with torch.no_grad():
        conv.weight.fill_(-1e-60)
        assert conv(torch.ones(1, 1, 1, 1, dtype=torch.float64)).item() < 0


@needs_kernels
def test_a_product_of_two_types_is_left_to_pytorch():
    assert linear_sign_sums(torch.ones(1, 2).half(), torch.ones(1, 2)) is None


@needs_kernels
def test_results_lie_next_to_the_weights_whatever_the_default_device():
    latent, grad, alpha = torch.randn(3, 4), torch.randn(3, 4), torch.rand(3)
    expected = rebnn.measure_by_kernel(grad, latent, alpha), rebnn.count_by_kernel(latent, grad < 0, None)
    x, weight = torch.randn(1, 4, 1, 1), torch.randn(3, 4, 1, 1)
    sums = sign_sums(x, weight, *CONVOLUTION)
    with torch.device('meta'):
        found = rebnn.measure_by_kernel(grad, latent, alpha), rebnn.count_by_kernel(latent, grad < 0, None)
        assert torch.equal(sign_sums(x, weight, *CONVOLUTION), sums)
    for ours, theirs in zip(found, expected, strict=True):
        assert all(map(torch.equal, ours, theirs))


@needs_kernels
def test_modes_and_transforms_of_pytorch_see_its_own_operators():
    x = torch.randn(3, 4)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert native.signs(x) is None and rebnn.measure_by_kernel(x, x, x[:, 0].clone()) is None
        assert linear_sign_sums(x, x) is None

    def looked_at(row):
        assert native.signs(row) is None and not native.holds_values(row)
        return row * 2

    assert torch.equal(torch.vmap(looked_at)(x), x * 2)


@needs_kernels
def test_what_lies_otherwise_in_memory_is_left_to_pytorch():
    x = torch.randn(4, 6)
    assert native.signs(x.t()) is None and native.signs(x.double()) is None and native.signs(x[:0]) is None
    assert torch.equal(sign(x.t()), sign(x).t())


def test_can_be_switched_off(monkeypatch):
    monkeypatch.setenv(native.VARIABLE, '0')
    native.library.cache_clear()
    try:
        assert sign_sums(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1), (1, 1), (0, 0), (1, 1), 1) is None
    finally:
        native.library.cache_clear()


def test_a_library_of_another_version_is_left_alone(monkeypatch):
    monkeypatch.setattr(native_library, 'ABI', native_library.ABI + 1)
    native.library.cache_clear()
    try:
        assert native.library() is None
    finally:
        native.library.cache_clear()


@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize(
    ('layer', 'shape'),
    [
        (BinaryConv2d(16, 4, 3), (2, 8, 6, 6)),
        (BinaryConv2d(16, 4, 3, groups=2), (2, 8, 6, 6)),
        (BinaryLinear(16, 5), (3, 8)),
    ],
)
def test_an_input_of_other_channels_is_refused(layer, shape, training):
    with pytest.raises(RuntimeError, match=r'must match|to have 16 channels|cannot be multiplied'):
        layer.train(training)(torch.randn(shape))


def test_sums_of_other_channels_are_left_to_pytorch():
    x, weight = torch.randn(2, 16, 6, 6), torch.randn(4, 16, 3, 3)
    rest = (1, 1), (1, 1), (1, 1)
    assert sign_sums(x[:, :8], weight, *rest, 1) is None and sign_sums(x, weight, *rest, 2) is None
    assert linear_sign_sums(torch.randn(3, 8), torch.randn(5, 16)) is None


FORKED = """
import os, signal
import torch
from rebnn_mm.functional import native

torch.set_num_threads(3)
parts = []
for _ in range(5):
    native._in_parts(3, parts.append)
child = os.fork()
if child == 0:
    signal.alarm(20)
    native._in_parts(3, parts.append)
    os._exit(len(parts))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 18
"""


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='no processes are forked here')
def test_a_forked_process_makes_threads_of_its_own():
    done = run_code(FORKED)
    assert done.returncode == 0, done.stderr
