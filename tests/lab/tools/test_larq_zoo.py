import numpy as np
import pytest
import torch

from lab.tools.larq_zoo import as_pytorch, is_keras_file, keras_state, renumber, with_keras_eps


def test_numbers_are_those_of_the_order_in_which_layers_were_made():
    layers = ['batch_normalization_11', 'quant_conv2d_9', 'batch_normalization_9', 'quant_conv2d_10', 'conv2d']
    assert renumber(layers) == {
        'batch_normalization_11': 'batch_normalization.1',
        'batch_normalization_9': 'batch_normalization.0',
        'quant_conv2d_9': 'quant_conv2d.0',
        'quant_conv2d_10': 'quant_conv2d.1',
        'conv2d': 'conv2d.0',
    }


def test_kernels_lie_as_pytorch_has_them():
    kernel = np.random.default_rng(0).normal(size=(3, 5, 2, 4)).astype(np.float32)
    state = as_pytorch(
        [
            ('conv2d', 'conv2d/kernel:0', kernel),
            ('depthwise_conv2d', 'depthwise_conv2d/depthwise_kernel:0', kernel[..., :1]),
            ('dense_2', 'dense_2/kernel:0', kernel[0, 0]),
            ('act', 'act/alpha:0', kernel[:1, :1, :, 0]),
        ]
    )
    assert state['conv2d.0.weight'][3, 1, 2, 4] == kernel[2, 4, 1, 3]
    assert state['depthwise_conv2d.0.weight'][1, 0, 2, 4] == kernel[2, 4, 1, 0]
    assert state['dense.0.weight'][3, 1] == kernel[0, 0, 1, 3]
    assert state['act.weight'].shape == (2,)


def test_a_norm_with_keras_epsilon_computes_the_same():
    x, var = torch.randn(4, 3, 2, 2, dtype=torch.float64), torch.tensor([1e-4, 0.1, 3.0], dtype=torch.float64)
    found = {'bn.running_var': var.clone(), 'bn.running_mean': torch.zeros(3)}
    with_keras_eps(found)
    norm = torch.nn.BatchNorm2d(3, affine=False).double().eval()
    norm.running_var = found['bn.running_var']
    torch.testing.assert_close(norm(x), x / (var + 1e-3).sqrt().view(-1, 1, 1), atol=1e-12, rtol=1e-12)


class TestFile:
    """A file as Keras writes it."""

    @pytest.fixture
    def h5py(self):
        return pytest.importorskip('h5py')

    @pytest.fixture
    def path(self, h5py, tmp_path):
        with h5py.File(tmp_path / 'x.h5', 'w') as file:
            self.write(file)
        return tmp_path / 'x.h5'

    @staticmethod
    def write(root):
        root.attrs['layer_names'] = [b'input_1', b'dense_4']
        root.create_group('input_1').attrs['weight_names'] = []
        layer = root.create_group('dense_4')
        layer.attrs['weight_names'] = [b'dense_4/kernel:0', b'dense_4/bias:0']
        layer['dense_4/kernel:0'], layer['dense_4/bias:0'] = np.eye(3, 2), np.ones(2)

    def test_is_read(self, path):
        assert is_keras_file(path)
        assert {key: value.shape for key, value in keras_state(path).items()} == {
            'dense.0.weight': (2, 3),
            'dense.0.bias': (2,),
        }

    def test_of_a_whole_model_is_read(self, h5py, path, tmp_path):
        with h5py.File(tmp_path / 'whole.h5', 'w') as file:
            self.write(file.create_group('model_weights'))
        assert keras_state(tmp_path / 'whole.h5').keys() == keras_state(path).keys()

    def test_that_is_cut_off_is_refused(self, path):
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(ValueError, match=r'^cannot be read: .*truncated'):
            keras_state(path)

    def test_without_layers_is_refused(self, h5py, path):
        with h5py.File(path, 'r+') as file:
            del file.attrs['layer_names']
        with pytest.raises(ValueError, match=r'holds no weights as Keras writes them \(layer_names\)\.$'):
            keras_state(path)
