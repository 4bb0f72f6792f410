# ReBNN 1-1-1: BiBERT's set-up with learned scaling factors and the resilient gradient in every linear layer.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/glue.
_base_ = '../_base_/glue/{{$ENCODER:bert_base}}/{{$TASK:sst2}}.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_rebnn_{{$TASK:sst2}}'
teacher = 'work_dirs/{{$ENCODER:bert_base}}_{{$TASK:sst2}}/pretrained'
model = dict(
    type='rebnn_mm.TaughtTextClassifier',
    encoder=teacher,
    teacher=teacher,
    num_labels=_base_.num_labels,
    binarize=dict(
        linear=dict(
            type='ReBNNLinear',
            center='row',  # as in BiBERT, whose set-up the paper takes over; None is the paper's text taken alone
            gamma='adaptive',
            gamma_bounds=(1e-5, 2e-4),
            flip_window=1,
            activation=dict(type='BinarySign', shift=None),
        ),
        word_embedding=dict(type='BinaryEmbedding', weight='BiBERTWeight'),
    ),
    attention=dict(type='BinaryAttention'),
    losses=[
        dict(type='PredictionLoss'),
        dict(type='DirectionMatchingLoss', mask_padding=True),
        dict(type='HiddenStateLoss', form='direction', mask_padding=True),
    ],
    label_weight=0.5,
)
custom_hooks = [dict(type='ReBNNHook')]
