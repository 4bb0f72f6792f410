# BiT 1-1-1 (Liu et al. 2022): centred signs, elastic binarization, softmax attention; learns from its W1A2 form,
# bit_w1a2.py. (The paper's single step learns from the full-precision classifier instead.)
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = '../_base_/datasets/glue/{{$ENCODER:bert_base}}/{{$TASK:sst2}}.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_bit_{{$TASK:sst2}}'
teacher = 'work_dirs/{{$ENCODER:bert_base}}_bit_w1a2_{{$TASK:sst2}}/pretrained'
signed = dict(type='BiTSign')
unsigned = dict(type='BiTStep')
model = dict(
    type='rebnn_mm.TeacherStudentTextClassifier',
    encoder=teacher,
    teacher=teacher,
    num_labels=_base_.num_labels,
    encoder_options=dict(hidden_act='relu'),
    binarize=dict(
        linear=dict(
            type='BinaryLinear', weight=dict(type='BiTWeight', per='tensor'), activation=dict(shift='zero', **signed)
        ),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='BiTWeight', per='channel')),
        # BERT's name of the layer after the ReLU.
        overrides={'layer.*.output.dense': dict(activation=dict(shift='zero', **unsigned))},
    ),
    attention=dict(type='SoftmaxAttention', projections=signed, weights=unsigned),
    losses=[
        dict(type='PredictionLoss'),
        dict(type='HiddenStateLoss', form='mse', mask_padding=True),
    ],
)
custom_hooks = [dict(type='BinaryHook')]
