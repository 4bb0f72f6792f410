# bert-base-uncased: 12 layers, width 768. One of
#   hf download google-bert/bert-base-uncased --local-dir data/bert_base_uncased
#   ln -s /path/to/your/bert-base-uncased data/bert_base_uncased
model = dict(type='rebnn_mm.TextClassifier', encoder='data/bert_base_uncased')
