"""Operators on strings."""

from __future__ import annotations

from differential.draw import Draw
from differential.recipes.registry import recipe
from differential.values import STRING


@recipe("StringNormalizer")
def string_normalizer(draw: Draw) -> None:
    count = draw.integer(1, 4)
    draw.tensor(0, draw.pick(((count,), (1, count))))
    draw.option("case_change_action", draw.pick(("LOWER", "UPPER", "NONE")))
    draw.option("is_case_sensitive", draw.integer(0, 1))
    draw.set(locale="C")  # onnxruntime takes what the system has
    if draw.chance(0.5):
        draw.set(stopwords=["a", "B"])


@recipe("StringSplit")
def string_split(draw: Draw) -> None:
    draw.tensor(0, draw.shape(0, 3))
    if draw.chance(0.6):
        draw.set(delimiter=draw.pick((",", " ", "", "a")))
    if draw.chance(0.5):
        draw.set(maxsplit=draw.integer(1, 2))
    draw.outputs(True, True)


@recipe("RegexFullMatch")
def regex_full_match(draw: Draw) -> None:
    draw.tensor(0, draw.shape())
    draw.set(pattern=draw.pick(("a.*", r"\w+@\w+\.org", "[A-Z]+", "", "a|B")))


@recipe("TfIdfVectorizer")
def tf_idf(draw: Draw) -> None:
    kind = draw.input_type(0)
    draw.tensor(0, draw.pick(((draw.integer(1, 6),), (draw.integer(1, 3), draw.integer(1, 6)))), "small")
    longest = draw.integer(1, 2)
    draw.set(
        mode=draw.pick(("TF", "IDF", "TFIDF")),
        min_gram_length=draw.integer(1, longest),
        max_gram_length=longest,
        max_skip_count=draw.integer(0, 2),
        ngram_counts=[0, 3],
        ngram_indexes=[0, 1, 2, 3, 4],
    )
    if kind == STRING:
        draw.set(pool_strings=["a", "B", "", "a", "B", "B", "a"])
    else:
        draw.set(pool_int64s=[1, 2, 3, 1, 2, 2, 3])
    if draw.chance(0.4):
        draw.set(weights=[1.0, 0.5, 2.0, 3.0, 0.25])
