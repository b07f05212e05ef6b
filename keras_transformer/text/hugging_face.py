"""Tokenizers of pretrained encoder-decoders, from the files of a directory of Hugging Face."""

from collections.abc import Callable
from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.files import _as_path
from keras_transformer.text.bridge import _BridgedTokenizer
from keras_transformer.text.hugging_face_files import (
    _END,
    _MASK,
    _PAD,
    _START,
    _UNKNOWN,
    _byte_pairs,
    _Directory,
    _language,
    _refuse_language,
)
from keras_transformer.text.log_mel import _LogMel
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.whisper import _whisper
from keras_transformer.types import Config

_FAIRSEQ = (_START, _PAD, _END, _UNKNOWN)  # where SentencePiece has three others
# No file lists the languages, whose ids follow each other.
_LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he "
        "hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl "
        "no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi "
        "yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
    "mbart50": (
        "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV "
        "my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID "
        "ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA "
        "ur_PK xh_ZA gl_ES sl_SI"
    ),
    "nllb": (
        "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab "
        "ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn "
        "ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl "
        "cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn "
        "dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn "
        "fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn "
        "heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn "
        "jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn "
        "kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn "
        "lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn "
        "luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn mni_Beng "
        "khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn "
        "nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab "
        "quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn "
        "slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn "
        "sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi "
        "taq_Latn taq_Tfng tpi_Latn tsn_Latn tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab "
        "ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn "
        "yue_Hant zho_Hans zho_Hant zul_Latn"
    ),
}
# Where a directory names no class of tokenizers, or one that says nothing.
_CLASSES = {
    "bart": "BartTokenizer",
    "m2m_100": "M2M100Tokenizer",
    "marian": "MarianTokenizer",
    "mt5": "T5Tokenizer",
    "pegasus": "PegasusTokenizer",
    "t5": "T5Tokenizer",
    "umt5": "T5Tokenizer",
    "whisper": "WhisperTokenizer",
}


def read_hugging_face_tokenizers(
    directory: str | Path, source_language: str | None = None, target_language: str | None = None
) -> tuple[Tokenizer, Tokenizer]:
    """Read the tokenizers of a pretrained encoder-decoder.

    They split texts as the original does, in the graph, are saved, read by `load_tokenizer` and exported as
    all others. **The ids are other ones**, as those of `as_tokenizer`; `Tokenizer.original_ids` has the
    original of each, which orders the rows of an embedding. Both have all ids of the model, also those that
    no text has.

    | tokenizer | files |
    |---|---|
    | Marian | `vocab.json`, `source.spm`, `target.spm`, `target_vocab.json` where vocabularies are separate |
    | T5, mT5, UMT5, Pegasus | `spiece.model` |
    | M2M100, SMaLL-100 | `vocab.json`, `sentencepiece.bpe.model` |
    | NLLB, mBART-50 | `sentencepiece.bpe.model` |
    | BART | `vocab.json` and `merges.txt`, or `tokenizer.json` |
    | ByT5 | none |
    | Whisper | as BART, and `preprocessor_config.json` or `processor_config.json` |

    The source of Whisper is audio: in the place of a tokenizer stand its log-mel features, which are those of
    `WhisperFeatureExtractor`. What the target begins with is what `generate` begins with, `<|notimestamps|>`
    last, always.

    `config.json` is read too, and `tokenizer_config.json` and `generation_config.json` where they are there.

    A SentencePiece model splits as SentencePiece does. Differences to `transformers` remain:

    - special tokens that are written in a text, as `</s>` or `<extra_id_0>`, are text; only a language code
      of Marian at the start, `>>deu<<`, is a token;
    - NUL and what is not UTF-8 become U+FFFD;
    - version 5 of `transformers` has another implementation of SentencePiece for T5, Pegasus, NLLB and
      mBART-50, which makes a token of a space at the end, splits at U+0085 (T5), knows no bytes for unknown
      letters (mT5) and normalizes some rare combining characters otherwise; where two splits have the same
      score, either may come;
    - spaces at the ends of a joined text are left out.

    Args:
        directory: what `save_pretrained` wrote, or a download from the hub.
        source_language: of M2M100, NLLB and mBART-50, as their tokenizer names it: `"de"`, `"deu_Latn"`,
            `"de_DE"`. Its token is put in front of every source. The default is `src_lang` of the
            configuration. Of Whisper with many languages the one that is spoken, `"de"`; the default is the
            one that the configuration names or forces, and there is no detection.
        target_language: the same of the target; the default is `tgt_lang`, or the token that the
            configuration forces at the start. Of a Marian model with many target languages: `"deu"`, whose
            token is put in front of every source. Of Whisper `"en"`, to translate, or the one that is spoken,
            to transcribe, which it does by default.

    Returns:
        The tokenizer of the source and that of the target.

    Raises:
        InputError: A file is missing, damaged or does not fit the others; the tokenizer is none of these, or
            has tokens that cannot be reproduced; a language is missing or unknown.
    """
    files = _Directory(_as_path(directory), _CLASSES)
    name = files.class_name()
    if name not in _FAMILIES:
        known = tuple(_FAMILIES)
        wanted = f"the tokenizer must be one of {known}"
        raise InputError(f"{files.settings_path}: {wanted}. Received: {name!r}.")
    source, target = _FAMILIES[name](files, source_language, target_language)
    first = _LogMel(**source) if name == "WhisperTokenizer" else _BridgedTokenizer(source)
    return first, _BridgedTokenizer(target)


def _marian(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source)
    separate = files.settings.get("separate_vocabs") is True
    pieces = files.vocabulary("vocab.json")
    target_pieces = files.vocabulary("target_vocab.json") if separate else pieces
    prefix = []
    if target is not None:
        languages = [piece[2:-2] for piece in pieces if piece.startswith(">>") and piece.endswith("<<")]
        prefix = [f">>{_language(files, 'target_language', target, languages)}<<"]
    size = "decoder_vocab_size" if separate else "vocab_size"
    return (
        files.describe("named_pieces", pieces, proto=files.model("source.spm")[0], code=True, prefix=prefix),
        files.describe(
            "named_pieces", target_pieces, size=size, proto=files.model("target.spm")[0], code=True
        ),
    )


def _t5(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    proto, pieces = files.model("spiece.model")
    extra = [f"<extra_id_{number}>" for number in reversed(range(files.number("extra_ids", 100)))]
    new = [] if "<extra_id_0>" in pieces else extra
    description = files.describe("named_pieces", [*pieces, *new], extra, proto=proto)
    return description, description


def _pegasus(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    proto, pieces = files.model("spiece.model", [_PAD, _END])
    offset = files.number("offset", 103)
    if offset < 2:
        raise InputError(f"{files.settings_path}: offset must be at least 2. Received: {offset}.")
    extra = ["<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, offset))]
    description = files.describe("named_pieces", [_PAD, _END, *extra, *pieces[2:]], extra, proto=proto)
    return description, description


def _m2m100(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    proto, _ = files.model("sentencepiece.bpe.model")
    codes = files.settings.get("language_codes", "m2m100")
    if codes not in ("m2m100", "wmt21"):
        wanted = "language_codes must be 'm2m100' or 'wmt21'"
        raise InputError(f"{files.settings_path}: {wanted}. Received: {codes!r}.")
    languages = {code: f"__{code}__" for code in _LANGUAGES[codes].split()}
    pieces = [*files.vocabulary("vocab.json"), *languages.values()]
    return _with_languages(files, pieces, languages, proto, source, target)


def _fairseq(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    proto, pieces = files.model("sentencepiece.bpe.model", [_UNKNOWN, _START, _END])
    if files.settings.get("legacy_behaviour"):
        wanted = "legacy_behaviour must be false, since the language is put in front"
        raise InputError(f"{files.settings_path}: {wanted}. Received: true.")
    family = "nllb" if files.class_name() == "NllbTokenizer" else "mbart50"
    languages = {code: code for code in _LANGUAGES[family].split()}
    pieces = [*_FAIRSEQ, *pieces[3:], *languages, _MASK]
    return _with_languages(files, pieces, languages, proto, source, target)


def _with_languages(
    files: _Directory,
    pieces: list[str],
    languages: dict[str, str],
    proto: str,
    source: str | None,
    target: str | None,
) -> tuple[Config, Config]:
    """Describe tokenizers that put the token of a language in front of each text."""
    forced = files.table("generation_config.json", optional=True).get("forced_bos_token_id")
    forced = files.config.get("forced_bos_token_id") if forced is None else forced
    by_number: dict[object, str] = {pieces.index(token): code for code, token in languages.items()}
    source = source or files.settings.get("src_lang")
    target = target or files.settings.get("tgt_lang") or by_number.get(forced)
    tokens = [
        languages[_language(files, argument, name, languages)]
        for argument, name in (("source_language", source), ("target_language", target))
    ]
    prefixes = [[token] for token in tokens]
    if files.class_name() == "SMALL100Tokenizer":  # whose encoder is told the target
        prefixes = [[tokens[1]], []]
    first, second = (
        files.describe("named_pieces", pieces, [*languages.values()], proto=proto, prefix=prefix)
        for prefix in prefixes
    )
    return first, second


def _bart(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    pieces, merges, space = _byte_pairs(files)
    description = files.describe("byte_level", pieces, merges=merges, prefix=[_START], add_prefix_space=space)
    return description, description


def _byt5(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    extra = [f"<extra_id_{number}>" for number in range(files.number("extra_ids", 125))]
    pieces = [_PAD, _END, _UNKNOWN, *map(chr, range(256)), *extra]
    description = files.describe("bytes", pieces, extra)
    return description, description


_FAMILIES: dict[object, Callable[[_Directory, str | None, str | None], tuple[Config, Config]]] = {
    "BartTokenizer": _bart,
    "ByT5Tokenizer": _byt5,
    "M2M100Tokenizer": _m2m100,
    "MBart50Tokenizer": _fairseq,
    "MT5Tokenizer": _t5,
    "MarianTokenizer": _marian,
    "NllbTokenizer": _fairseq,
    "PegasusTokenizer": _pegasus,
    "SMALL100Tokenizer": _m2m100,
    "T5Tokenizer": _t5,
    "WhisperTokenizer": _whisper,
}
