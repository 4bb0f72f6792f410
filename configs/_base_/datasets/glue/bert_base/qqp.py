# Whether two questions mean the same.
# BiBERT's recipe: 5 epochs at a rate of 1e-4, 128 tokens, batch 16, the best evaluation by accuracy.
_base_ = '../../../runtime/glue.py'

num_labels = 2
epoch_iters = 363846 // 16
fine_tune = dict(max_iters=3 * epoch_iters)  # of the full-precision row, which is not part of that recipe

pipeline = [dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=128)]
rows = dict(type='GLUEDataset', task='qqp', data_root='data/glue', pipeline=pipeline)
train_dataloader = dict(dataset=dict(ann_file='QQP/train.tsv', **rows))
val_dataloader = dict(dataset=dict(ann_file='QQP/dev.tsv', **rows))
test_dataloader = val_dataloader
val_evaluator = dict(type='GLUEMetric', task='qqp')
test_evaluator = val_evaluator

train_cfg = dict(max_iters=5 * epoch_iters, val_interval=1000)
default_hooks = dict(checkpoint=dict(save_best='glue/accuracy'))
