"""The four token ids that every vocabulary starts with."""

PAD_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[START]", "[END]")
NUM_SPECIAL_TOKENS = len(SPECIAL_TOKENS)
