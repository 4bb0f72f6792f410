# Natural language inference in three classes; texts like those of training (matched) and unlike them (mismatched).
# BiBERT's recipe: 5 epochs at a rate of 5e-5, 128 tokens, batch 16, the best evaluation by matched accuracy.
_base_ = '../../../runtime/glue.py'

num_labels = 3
epoch_iters = 392702 // 16
fine_tune = dict(max_iters=3 * epoch_iters)  # of the full-precision row, which is not part of that recipe

pipeline = [dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=128)]
rows = dict(type='GLUEDataset', task='mnli', data_root='data/glue', pipeline=pipeline)
train_dataloader = dict(dataset=dict(ann_file='MNLI/train.tsv', **rows))
development = [
    dict(ann_file='MNLI/dev_matched.tsv', split='matched', **rows),
    dict(ann_file='MNLI/dev_mismatched.tsv', split='mismatched', **rows),
]
val_dataloader = dict(dataset=dict(type='ConcatDataset', datasets=development))
test_dataloader = val_dataloader
val_evaluator = dict(type='GLUEMetric', task='mnli')
test_evaluator = val_evaluator

optim_wrapper = dict(optimizer=dict(lr=5e-5))
train_cfg = dict(max_iters=5 * epoch_iters, val_interval=1000)
default_hooks = dict(checkpoint=dict(save_best='glue/accuracy_matched'))
