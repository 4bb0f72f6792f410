# BiT, first step (Liu et al. 2022): binary weights and 2-bit inputs; the result starts and teaches bit.py.
# A config adds encoder and teacher, the fine-tuned real-valued classifier for both, and num_labels.
signed = dict(type='BiTSign', bits=2)
unsigned = dict(type='BiTStep', bits=2)
model = dict(
    type='rebnn_mm.TaughtTextClassifier',
    encoder_options=dict(hidden_act='relu'),
    binarize=dict(
        linear=dict(
            type='BinaryLinear', weight=dict(type='BiTWeight', per='tensor'), activation=dict(shift='zero', **signed)
        ),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='BiTWeight', per='channel')),
        # BERT's name of the layer behind the ReLU.
        overrides={'layer.*.output.dense': dict(activation=dict(shift='zero', **unsigned))},
    ),
    attention=dict(type='BinarySoftmaxAttention', projections=signed, weights=unsigned),
    losses=[
        dict(type='BinaryPredictionLoss'),
        dict(type='BinaryHiddenStateLoss', form='mse', mask_padding=True),
    ],
)
custom_hooks = [dict(type='BinaryHook'), dict(type='BinarySavePretrainedHook')]
