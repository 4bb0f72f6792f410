# BinaryBERT 1-1-1, second stage (Bai et al. 2021): each ternary layer of the first, binarybert_ternary.py, is split
# into two binary ones.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = '../_base_/datasets/glue/{{$ENCODER:bert_base}}/{{$TASK:sst2}}.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_binarybert_{{$TASK:sst2}}'
teacher = 'work_dirs/{{$ENCODER:bert_base}}_{{$TASK:sst2}}/pretrained'
activation = dict(type='BinarySign', shift=None)
model = dict(
    type='rebnn_mm.TeacherStudentTextClassifier',
    encoder='work_dirs/{{$ENCODER:bert_base}}_binarybert_ternary_{{$TASK:sst2}}/pretrained',
    teacher=teacher,
    num_labels=_base_.num_labels,
    binarize=dict(
        linear=dict(type='BinaryLinear', weight=dict(type='BWNWeight', per='tensor'), activation=activation),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='BWNWeight', per='channel')),
        split=True,
    ),
    attention=dict(type='SoftmaxAttention', projections=activation, weights='BinaryStep'),
    losses=[dict(type='PredictionLoss')],
)
custom_hooks = [dict(type='BinaryHook')]
