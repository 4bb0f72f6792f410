# How alike two sentences are, 0 to 5: a regression.
# BiBERT's recipe: 20 epochs at a rate of 1e-4, 128 tokens, batch 16, the best one by the mean of Pearson and Spearman.
_base_ = '../../../runtime/glue.py'

num_labels = 1
epoch_iters = 5749 // 16
fine_tune = dict(max_iters=20 * epoch_iters)  # of the full-precision row, which is not part of that recipe

pipeline = [dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=128)]
rows = dict(type='GLUEDataset', task='stsb', data_root='data/glue', pipeline=pipeline)
train_dataloader = dict(dataset=dict(ann_file='STS-B/train.tsv', **rows))
val_dataloader = dict(dataset=dict(ann_file='STS-B/dev.tsv', **rows))
test_dataloader = val_dataloader
val_evaluator = dict(type='GLUEMetric', task='stsb')
test_evaluator = val_evaluator

train_cfg = dict(max_iters=20 * epoch_iters, val_interval=200)
default_hooks = dict(checkpoint=dict(save_best='glue/pearson_spearman'))
