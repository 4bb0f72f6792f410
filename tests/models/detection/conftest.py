import pytest
import torch


@pytest.fixture(scope='session')
def teacher_file(tmp_path_factory):
    """Checkpoint of the teacher of tests.models.detection.taught_samples.taught()."""
    from .taught_samples import c4, save_teacher

    return save_teacher(c4(None), tmp_path_factory.mktemp('teacher') / 'epoch_1.pth')


@pytest.fixture
def build(teacher_file):
    """Builds the student of that teacher, in training."""
    from .taught_samples import built, taught

    def build(**options):
        torch.manual_seed(0)
        model = built(taught(teacher_file, **options))
        model.init_weights()
        return model.train()

    return build
