# BiT 1-1-1 (Liu et al. 2022): centred signs, elastic binarisation, softmax attention; learns from its W1A2 form.
# A config adds encoder and teacher, what bit_w1a2.py has written to its <work_dir>/pretrained for both, and
# num_labels. (The paper's single step takes the fine-tuned real-valued classifier for both instead.)
signed = dict(type='BiTSign')
unsigned = dict(type='BiTStep')
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
custom_hooks = [dict(type='BinaryHook')]
