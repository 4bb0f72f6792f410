# Sentiment of movie reviews.
# BiBERT's recipe: 10 epochs at a rate of 1e-4, 64 tokens, batch 16, the best evaluation by accuracy.
_base_ = '../../../runtime/glue.py'

num_labels = 2
epoch_iters = 67349 // 16
fine_tune = dict(max_iters=3 * epoch_iters)  # of the full-precision row, which is not part of that recipe

pipeline = [dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=64)]
rows = dict(type='GLUEDataset', task='sst2', data_root='data/glue', pipeline=pipeline)
train_dataloader = dict(dataset=dict(ann_file='SST-2/train.tsv', **rows))
val_dataloader = dict(dataset=dict(ann_file='SST-2/dev.tsv', **rows))
test_dataloader = val_dataloader
val_evaluator = dict(type='GLUEMetric', task='sst2')
test_evaluator = val_evaluator

train_cfg = dict(max_iters=10 * epoch_iters, val_interval=200)
default_hooks = dict(checkpoint=dict(save_best='glue/accuracy'))
