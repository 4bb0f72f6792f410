"""What a network is asked about an image; the arithmetic is in the examples of the docstrings."""

import mmcv
import numpy as np
import pytest
import torch
from torch import nn

from lab.tools.soft_labels import answers, columns_of
from tests.refusal import refusal


class MeanColour(nn.Module):
    def forward(self, images):
        assert images.shape[2:] == (128, 128)
        return images.mean((2, 3))


def test_a_network_sees_rgb_from_minus_one_to_one(tmp_path):
    image = np.zeros((64, 64, 3), np.uint8)
    image[..., 0] = 255  # blue, as OpenCV writes it
    mmcv.imwrite(image, str(tmp_path / 'blue.png'))
    assert answers(MeanColour(), [tmp_path / 'blue.png'] * 2).tolist() == [[-127 / 128, -127 / 128, 1]] * 2


@pytest.mark.parametrize(('names', 'word'), [(['n1', 'cat'], 'cat'), ([], 'nothing')])
def test_a_folder_that_is_no_class_is_refused(names, word):
    message = refusal(columns_of, names, {'0': ['n1', 'tench']})
    assert message == f'{word} is not an ImageNet class. Name folders by WordNet ids.'
    assert torch.equal(columns_of(['n1'], {'0': ['n1', 'tench']}), torch.tensor([0]))
