_base_ = ['../_base_/glue/tasks/sst2.py', '../_base_/glue/methods/ternarybert.py']

# Table 4, TernaryBERT 2-2-2: accuracy 80.7 (the paper's number).
teacher = 'work_dirs/bert_base_sst2/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
