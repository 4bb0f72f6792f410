# Whether one sentence follows from another.
# BiBERT's recipe: 20 epochs at a rate of 1e-5, 128 tokens, batch 16, the best evaluation by accuracy.
_base_ = '../../../runtime/glue.py'

num_labels = 2
epoch_iters = 2490 // 16
fine_tune = dict(max_iters=20 * epoch_iters)  # of the full-precision row, which is not part of that recipe

pipeline = [dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=128)]
rows = dict(type='GLUEDataset', task='rte', data_root='data/glue', pipeline=pipeline)
train_dataloader = dict(dataset=dict(ann_file='RTE/train.tsv', **rows))
val_dataloader = dict(dataset=dict(ann_file='RTE/dev.tsv', **rows))
test_dataloader = val_dataloader
val_evaluator = dict(type='GLUEMetric', task='rte')
test_evaluator = val_evaluator

optim_wrapper = dict(optimizer=dict(lr=1e-5))
train_cfg = dict(max_iters=20 * epoch_iters, val_interval=200)
default_hooks = dict(checkpoint=dict(save_best='glue/accuracy'))
