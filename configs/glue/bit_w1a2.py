# BiT, first step (Liu et al. 2022): binary weights and 2-bit inputs; the result starts and teaches bit.py.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/glue.
_base_ = '../_base_/glue/{{$ENCODER:bert_base}}/{{$TASK:sst2}}.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_bit_w1a2_{{$TASK:sst2}}'
teacher = 'work_dirs/{{$ENCODER:bert_base}}_{{$TASK:sst2}}/pretrained'
signed = dict(type='BiTSign', bits=2)
unsigned = dict(type='BiTStep', bits=2)
model = dict(
    type='rebnn_mm.TaughtTextClassifier',
    encoder=teacher,
    teacher=teacher,
    num_labels=_base_.num_labels,
    encoder_options=dict(hidden_act='relu'),
    binarize=dict(
        linear=dict(
            type='BinaryLinear', weight=dict(type='BiTWeight', per='tensor'), activation=dict(shift='zero', **signed)
        ),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='BiTWeight', per='channel')),
        # BERT's name of the layer behind the ReLU.
        overrides={'layer.*.output.dense': dict(activation=dict(shift='zero', **unsigned))},
    ),
    attention=dict(type='SoftmaxAttention', projections=signed, weights=unsigned),
    losses=[
        dict(type='PredictionLoss'),
        dict(type='HiddenStateLoss', form='mse', mask_padding=True),
    ],
)
custom_hooks = [dict(type='BinaryHook'), dict(type='SavePretrainedHook')]
