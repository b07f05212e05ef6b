"""Programs that measure this package. Run them from the root of the checkout; `--help` lists the options.

python -m benchmarks.compare_commits BEFORE AFTER    training and decoding of two commits
python -m benchmarks.training.peers                  training steps, compared with KerasHub and torch
python -m benchmarks.training.loss_memory            memory of the loss over a large vocabulary
python -m benchmarks.decoding.peers                  decoding, compared with CTranslate2 and Marian
python -m benchmarks.data.pipeline SOURCE TARGET     how long training steps wait for batches
python -m benchmarks.data.large_corpus ...           start and memory of a run on millions of pairs
python -m benchmarks.quality.results RUN ...         scores of runs, over seeds
python -m benchmarks.quality.single_files ...        LiteRT and ONNX files: size, speed and BLEU
python -m benchmarks.quality.ctranslate2_parity ...  outputs of CTranslate2 for the same weights
python -m benchmarks.quality.pretrained DATA         imported models, compared with `transformers`
python -m benchmarks.quality.references              layers, compared with references, on each backend
python -m benchmarks.quality.conformance             test files of Keras and KerasNLP, run on our layers
python -m benchmarks.robustness.mutants              whether the tests notice mistakes
python -m benchmarks.robustness.kill_and_resume      killed and resumed runs, compared bit for bit
"""
