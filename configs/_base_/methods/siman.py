# SiMaN (Lin et al. 2022): the larger half of each filter's magnitudes is +1, the smaller -1; magnitudes are clamped
# between percentiles after each step. The method's own recipes have no weight decay on latent weights.
binary = dict(type='SiMaNConv2d')
custom_hooks = [dict(type='BinaryHook')]
normalizes = True
