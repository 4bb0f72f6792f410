# Whether a sentence answers a question.
# BiBERT's recipe: 10 epochs at a rate of 1e-4, 128 tokens, batch 16, the best evaluation by accuracy.
_base_ = '../../../runtime/glue.py'

num_labels = 2
epoch_iters = 104743 // 16
fine_tune = dict(max_iters=3 * epoch_iters)  # of the full-precision row, which is not part of that recipe

pipeline = [dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=128)]
rows = dict(type='GLUEDataset', task='qnli', data_root='data/glue', pipeline=pipeline)
train_dataloader = dict(dataset=dict(ann_file='QNLI/train.tsv', **rows))
val_dataloader = dict(dataset=dict(ann_file='QNLI/dev.tsv', **rows))
test_dataloader = val_dataloader
val_evaluator = dict(type='GLUEMetric', task='qnli')
test_evaluator = val_evaluator

train_cfg = dict(max_iters=10 * epoch_iters, val_interval=1000)
default_hooks = dict(checkpoint=dict(save_best='glue/accuracy'))
randomness = dict(seed=101)
