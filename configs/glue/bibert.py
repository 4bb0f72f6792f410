# BiBERT 1-1-1 (Qin et al. 2022): centred signs with the row's mean magnitude, Bi-Attention, direction matching.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = '../_base_/datasets/glue/{{$ENCODER:bert_base}}/{{$TASK:sst2}}.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_bibert_{{$TASK:sst2}}'
teacher = 'work_dirs/{{$ENCODER:bert_base}}_{{$TASK:sst2}}/pretrained'
model = dict(
    type='rebnn_mm.TeacherStudentTextClassifier',
    encoder=teacher,
    teacher=teacher,
    num_labels=_base_.num_labels,
    binarize=dict(
        linear=dict(type='BinaryLinear', weight='BiBERTWeight', activation=dict(type='BinarySign', shift=None)),
        word_embedding=dict(type='BinaryEmbedding', weight='BiBERTWeight'),
    ),
    attention=dict(type='BinaryAttention'),
    losses=[
        dict(type='PredictionLoss'),
        dict(type='DirectionMatchingLoss', mask_padding=True),  # False in the released code
        dict(type='HiddenStateLoss', form='direction', mask_padding=True),
    ],
    label_weight=0.5,
)
custom_hooks = [dict(type='BinaryHook')]
