# SPDX-License-Identifier: Apache-2.0
#
# Makes the small tokenizers of kinds/: one for each kind of pipeline that a supported family has, with the ids that the
# reference implementation gives for a list of hard texts. Needs the package tokenizers (0.23 made the files in the tree).
# Usage: make_tokenizers.py OUT

import json
import os
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The hummingbird hovers before the flower, and its wings beat eighty times a second.",
    "It's what we'll see: they're small, I'm sure, and you've read that HE'LL AGREE.",
    "for (int i = 0; i < 1024; ++i) {\n    total += values[i] * 3.14159;\n    if (total > 1e6) break;\n}\n",
    "camelCaseName HTTPServer XMLHttpRequest iPhone McDonald",
    "In 2024 the bird flew 12345 km; in 1999 only 678.",
    "El colibr\u00ed es un p\u00e1jaro peque\u00f1o. \u00dcber den Fl\u00fcssen schwebt er.",
    "\u8702\u9e1f\u662f\u4e16\u754c\u4e0a\u6700\u5c0f\u7684\u9e1f\u3002\u30cf\u30c1\u30c9\u30ea\u306f\u5c0f\u3055\u3044\u9ce5\u3067\u3059\u3002",
    "\u041a\u043e\u043b\u0438\u0431\u0440\u0438 \u2014 \u043c\u0430\u043b\u0435\u043d\u044c\u043a\u0430\u044f \u043f\u0442\u0438\u0446\u0430.",
    "wings  wings   wings\t\twings\r\n\r\nwings\n\n\n  wings",
]
TEXTS = CORPUS + [
    "", " ", "  ", "   a", "a   ", "\n", "\n\n", " \n ", "\t", "\r\n", "a\n\n b", "a \n\n  b ",
    "don't DON'T Don\u2019t we'll WE'LL 'sure' '' 'S", "x'sX'LLx", "1", "12", "123", "1234", "1234567890", "a1b22c333",
    "\u0661\u0662\u0663\u0664 \u2167 \u00bd", "\u4e2d12\u6587", "\u4e2d\u6587 mix \u30ab\u30bf\u30ab\u30ca\u3072\u3089",
    "e\u0301 \u00e9 \u1e69 s\u0323\u0307", "\u0301\u0301a", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\U0001f426 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f", "a\u00a0b\u3000c\u2009d\u0085e",
    "foo_bar-baz/qux.html?x=1&y=2#z", "!!! ??? ... ,,;;", "$100 +20% #tag @user", "(a)[b]{c}<d>", "\\n\\t",
    "The  two   three    four     five", "    indent\n        more\n\tend", "ABCdefGHIjkl", "Abc\u01c5def \u02b0x",
    "\u0000\u0001\u007f", "\ufeffx", "\ufffd", "<s>a</s> b<unk>", "x<|end|>y <|end|> z", "<think>x</think>",
    "  <think>  </think>  ", "\u2581a \u2581 b\u2581", "wings" * 40, "\u8702\u9e1f" * 30, "9" * 25, " " * 20 + "x",
]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [
    r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"]


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def bytes_only():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


BYTE_LEVEL = {
    "gpt2": (normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "cl100k": (None, pre_tokenizers.Sequence([split(CL100K), bytes_only()])),
    "qwen": (normalizers.NFC(),
             pre_tokenizers.Sequence([split(CL100K.replace(r"\p{N}{1,3}", r"\p{N}")), bytes_only()])),
    "o200k": (None, pre_tokenizers.Sequence([split(O200K), bytes_only()])),
    "deepseek": (None, pre_tokenizers.Sequence([split(p) for p in DEEPSEEK] + [bytes_only()])),
}


def make_byte_level(kind):
    normalizer, pre_tokenizer = BYTE_LEVEL[kind]
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "cl100k"))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS * 3, trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    data = json.loads(tokenizer.to_str())
    n = len(data["model"]["vocab"])
    tokens = [("<s>", True), ("</s>", True), ("<|end|>", True), ("<think>", False), ("</think>", False)]
    if kind == "gpt2":
        tokens += [(" " * k, False) for k in range(2, 12)]
    for i, (text, is_special) in enumerate(tokens):
        data["added_tokens"].append({"id": n + i, "content": text, "special": is_special, "normalized": False,
                                     "lstrip": False, "rstrip": False, "single_word": False})
    if kind == "deepseek":
        data["post_processor"] = {"type": "TemplateProcessing",
                                  "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                             {"Sequence": {"id": "A", "type_id": 0}}],
                                  "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                                           {"Sequence": {"id": "B", "type_id": 1}}],
                                  "special_tokens": {"<s>": {"id": "<s>", "ids": [n], "tokens": ["<s>"]}}}
    return data


# kind: "prepend" is a normaliser, the others are the scheme of a Metaspace.
def make_byte_fallback(kind):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.train_from_iterator(CORPUS[:5] * 3, trainers.BpeTrainer(vocab_size=260, show_progress=False))
    data = json.loads(tokenizer.to_str())
    names = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)] + sorted(
        data["model"]["vocab"], key=data["model"]["vocab"].get)
    data["model"].update(vocab={name: i for i, name in enumerate(names)}, byte_fallback=True, fuse_unk=True,
                         unk_token="<unk>")
    for i in range(3):
        data["added_tokens"].append({"id": i, "content": names[i], "special": True, "normalized": False, "lstrip": False,
                                     "rstrip": False, "single_word": False})
    if kind == "prepend":
        data["pre_tokenizer"] = None
        data["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    else:
        data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": kind, "split": False}
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return data


def make_cases(data):
    tokenizer = Tokenizer.from_str(json.dumps(data))
    cases = []
    for text in TEXTS:
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": ids, "ids_plain": plain,
                      "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                      "decoded_skip_special": tokenizer.decode(ids, skip_special_tokens=True)})
    return cases


def write(path, data, **options):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, ensure_ascii=True, **options)
        file.write("\n")


def main():
    kinds = {kind: make_byte_level(kind) for kind in BYTE_LEVEL}
    kinds.update({"byte-fallback-" + kind: make_byte_fallback(kind) for kind in ["prepend", "first", "always"]})
    for number, (kind, data) in enumerate(kinds.items()):
        if number % 2:  # the older spelling of merges
            data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
        folder = os.path.join(sys.argv[1], kind)
        os.makedirs(folder, exist_ok=True)
        write(os.path.join(folder, "tokenizer.json"), data, separators=(",", ":"))
        write(os.path.join(folder, "cases.json"), {"cases": make_cases(data)}, separators=(",", ":"))


if __name__ == "__main__":
    main()
