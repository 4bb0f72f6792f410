# TernaryBERT 2-2-2 (Zhang et al. 2020): ternary weights and activations, softmax attention, one stage of distillation.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = '../_base_/datasets/glue/{{$ENCODER:bert_base}}/{{$TASK:sst2}}.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_ternarybert_{{$TASK:sst2}}'
teacher = 'work_dirs/{{$ENCODER:bert_base}}_{{$TASK:sst2}}/pretrained'
activation = dict(type='TernaryBERTActivation', bits=2, clip=2.5, over='tensor')
model = dict(
    type='rebnn_mm.TeacherStudentTextClassifier',
    encoder=teacher,
    teacher=teacher,
    num_labels=_base_.num_labels,
    binarize=dict(
        linear=dict(type='BinaryLinear', weight=dict(type='TWNWeight', per='tensor'), activation=activation),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='TWNWeight', per='channel')),
    ),
    attention=dict(type='SoftmaxAttention', projections=activation, weights=activation),
    losses=[
        dict(type='PredictionLoss'),
        dict(type='AttentionScoreLoss', mask_padding=True),
        dict(type='HiddenStateLoss', form='mse', mask_padding=True),
    ],
)
custom_hooks = [dict(type='BinaryHook')]
