"""A config of three splits in COCO's form."""

from mmengine.config import Config


def coco_config(root='data/coco/', wrap=lambda dataset: dataset):
    def loader(split):
        dataset = dict(
            type='CocoDataset',
            data_root=root,
            ann_file=f'annotations/instances_{split}2017.json',
            data_prefix=dict(img=f'{split}2017/'),
        )
        return dict(dataset=wrap(dataset))

    evaluator = dict(type='CocoMetric', ann_file=f'{root}annotations/instances_val2017.json')
    return Config(
        dict(
            train_dataloader=loader('train'),
            val_dataloader=loader('val'),
            val_evaluator=evaluator,
            test_dataloader=loader('val'),
            test_evaluator=evaluator,
        )
    )
