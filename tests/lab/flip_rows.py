"""Rows of projected flips, as ``lab.tools.flips --json`` keeps them."""


def row(config, percent, label='as shipped', silent=()):
    return dict(
        config=config, label=label, optimizer='SGD 0.1', schedule=dict(steps=2000, highest=1.0, mean=0.5), steps=40,
        batch_size=8, data='demo/coco_sample', notes=['batch 8 in place of 32'], seed=0, seconds=1.0, enough=100.0,
        percent=percent, step_percent=percent / 1000, least='layer1.0.conv1', least_percent=percent / 2,
        silent=list(silent), verdict=f'signs flip {percent} %', layers=[],
        made=dict(date='2026-11-22', torch='2.13.0'),
    )  # fmt: skip
