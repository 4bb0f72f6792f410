# Whether two sentences of the news mean the same.
# BiBERT's recipe: 20 epochs at a rate of 2e-4, 128 tokens, batch 16, the best evaluation by accuracy.
_base_ = '../../../runtime/glue.py'

num_labels = 2
epoch_iters = 3668 // 16
fine_tune = dict(max_iters=20 * epoch_iters)  # of the full-precision row, which is not part of that recipe

pipeline = [dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=128)]
rows = dict(type='GLUEDataset', task='mrpc', data_root='data/glue', pipeline=pipeline)
train_dataloader = dict(dataset=dict(ann_file='MRPC/train.tsv', **rows))
val_dataloader = dict(dataset=dict(ann_file='MRPC/dev.tsv', **rows))
test_dataloader = val_dataloader
val_evaluator = dict(type='GLUEMetric', task='mrpc')
test_evaluator = val_evaluator

optim_wrapper = dict(optimizer=dict(lr=2e-4))
train_cfg = dict(max_iters=20 * epoch_iters, val_interval=200)
default_hooks = dict(checkpoint=dict(save_best='glue/accuracy'))
