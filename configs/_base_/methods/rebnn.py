# ReBNN (Xu et al. 2023): learnable scale, resilient gradient.
binary = dict(
    type='ReBNNConv2d',
    gamma='adaptive',  # share of flipped signs times the largest gradient (Eq. 14); 'max', or a number, 0 for none
    gamma_bounds=(1e-5, 2e-4),  # of both rules; None for no bounds
    flip_window=1,  # flips are counted over so many optimizer steps, or over an 'epoch'
    variant='paper',  # 'official': the gradients of the released code and its constant gamma
    pad_value=0,  # what fills the border after the sign
    keep_real=['downsample', 'shortcut'],  # parts of the names of layers that keep full precision
)
custom_hooks = [dict(type='ReBNNHook')]
