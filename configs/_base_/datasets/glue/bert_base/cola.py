# Whether a sentence is grammatical.
# BiBERT's recipe: 50 epochs at a rate of 1e-4, 64 tokens, batch 16, the best evaluation by the Matthews coefficient.
_base_ = '../../../runtime/glue.py'

num_labels = 2
epoch_iters = 8551 // 16
fine_tune = dict(max_iters=20 * epoch_iters)  # of the full-precision row, which is not part of that recipe

pipeline = [dict(type='TokenizeText', tokenizer='data/bert_base_uncased', max_length=64)]
rows = dict(type='GLUEDataset', task='cola', data_root='data/glue', pipeline=pipeline)
train_dataloader = dict(dataset=dict(ann_file='CoLA/train.tsv', **rows))
val_dataloader = dict(dataset=dict(ann_file='CoLA/dev.tsv', **rows))
test_dataloader = val_dataloader
val_evaluator = dict(type='GLUEMetric', task='cola')
test_evaluator = val_evaluator

train_cfg = dict(max_iters=50 * epoch_iters, val_interval=500)
default_hooks = dict(checkpoint=dict(save_best='glue/matthews'))
