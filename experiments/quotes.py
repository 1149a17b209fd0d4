"""Check that the numbers and verdicts in a page's prose are those that its sources give.

A page ends with comments that list what it quotes, a line each: words of the page, ` = `, an expression over a source:

    <!-- quoted from hundred_layers
    with tanh the loss is 2.1 times higher = tanh["plain"]
    | the sum | 94.4 ± 0.1 | **not reproduced** | = (accuracy["highway"], verdict)
    -->

All numbers in the words are the values, in order, as precisely as they are written; a half is rounded up or down. A
truth must be true: it vouches for a direction. A text is a verdict: all that is bold in the words or, if nothing is,
their only cell; beside other values, one of their cells. A number has digits or is a word from two to twelve. No number
is what hangs on a letter (x_0, 3rd, CIFAR-10) or follows section, figure, table, equation or arXiv, and no size
(3 × 3). Code, also what four spaces indent, comments, tags and the targets of links are no prose.
"""

import ast
import operator as op
import re
from collections.abc import Callable, Mapping
from typing import Any

from highway_networks import InputError

PAPER = {  # numbers that the paper states, and its sections; in every expression paper["..."] is such a value
    "epochs": 400,  # 3.1, figure 1
    "idle layers": 60,  # 4.2: % of those of the net for MNIST
    # Test accuracies in %, means where the paper has them:
    "mnist-16": 99.4,  # 3.2, table 1
    "mnist-32": 99.54,  # 3.2, table 1
    "maxout": 99.55,  # table 1
    "highway-a": 89.18,  # 3.3.1, table 2
    "highway-b": 92.28,  # 3.3.1, table 2
    "highway-c": 91.2,  # 3.3.1, table 2
    "FitNet A": 89.01,  # table 2
    "table-3": 92.31,  # 3.3.2, table 3: on CIFAR-10
    "table-3 on CIFAR-100": 67.61,  # 3.3.2, table 3
}

INVISIBLE = re.compile(
    r"(?ms)^```.*?(?:^```[^\n]*|\Z)|(?<=\n\n)(?: {4}[^\n]*\n+)+"  # blocks of code
    r"|<!--\s*quoted from\b(?P<source>[^\n]*)\n?(?P<quotes>.*?)(?:-->|\Z)|<!--.*?(?:-->|\Z)"  # comments
    r"|(?P<inline>`(?:[^\n`]|\n(?!\s*\n))+`)"  # code in a paragraph
)
MARKUP = re.compile(r"</?[a-z]\w*[^<>]*>|\]\([^()]*\)|!?\[|\]")  # tags, links
SPELT = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
COUNT = rf"(?:{DIGITS}|(?<!-)(?:{'|'.join(SPELT)})\b)"
LARGE = r" (?:hundred|thousand|million|billion|dozen)\b"
NUMBER = re.compile(rf"(?i)(?<![\w.])(?<!\d,)[+−–-]?{COUNT}(?!\w|[.,]\d|{LARGE})")
NOUN = r"(?:[ -][\w-]{4,}(?<!s)){0,2}[ -](?:runs?|seeds?|try|tries|nets?|points?|times)\b"  # of plain nets, too
ITEM = r"\d++(?:\.\d++)*+[a-z]?\b"
NAME = re.compile(  # digits that are no number
    rf"(?i)\b(?:section|figure|table|equation)(?:s {ITEM}(?:, {ITEM})*(?:,? and {ITEM})?|s? {ITEM}(?:[-–]{ITEM})?)"
    rf"(?! ?[%±×]|{NOUN})|\barXiv[: ]\d+\.\d+"  # but: in this table 94.4 % are right
    rf"|\b[^\W\d_]\w*-\d+\b(?!\.\d| ?%)"  # CIFAR-10
    rf"|(?<![\w.])\d+(?: ?[×x] ?\d+)+\b(?!\.\d| ?[%±×]|{NOUN})"  # 3 × 3
)
MEASURED = re.compile(  # what a page quotes, beside its bold spans
    rf"(?i)[+−–-]?{DIGITS}(?: ?%)? ?±(?: ?{DIGITS})?|± ?{DIGITS}|[+−–-]?{DIGITS} ?(?:%|per ?cent\b|×(?! ?\d))"
    rf"|(?<![\w.]){COUNT}(?:{NOUN}| (?:out )?of (?:(?:the|its|our|all|these) )?{COUNT})"
    rf"|(?<=\| )\**[+−–-]?{COUNT}\**(?= \|)|[+−–-]?[\d,]*\.\d+"
)
BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
HIDDEN = {letter: 0xE000 + letter for letter in range(128)}  # for code and names: compared, but without any number
SHOWN = {hidden: letter for letter, hidden in HIDDEN.items()}

FUNCTIONS = {function.__name__: function for function in (round, abs, min, max, len, sum, sorted)}
OPERATORS: dict[type, Callable] = (
    {ast.Add: op.add, ast.Sub: op.sub, ast.Mult: op.mul, ast.Div: op.truediv, ast.Pow: op.pow, ast.USub: op.neg}
    | {ast.Eq: op.eq, ast.NotEq: op.ne, ast.Lt: op.lt, ast.LtE: op.le, ast.Gt: op.gt, ast.GtE: op.ge}
    | {ast.Not: op.not_, ast.And: all}
)
NODES: dict[type, Callable] = (  # each takes the values of a node's fields
    {ast.Tuple: tuple, ast.List: list, ast.Subscript: op.getitem, ast.Attribute: getattr}
    | {ast.Constant: lambda value: value, ast.UnaryOp: op.call, ast.BoolOp: op.call}
    | {ast.BinOp: lambda left, sign, right: sign(left, right), ast.Call: lambda called, values, _: called(*values)}
    | {ast.Compare: lambda first, signs, others: all(map(op.call, signs, [first, *others], others))}
)


def evaluate(node: Any, names: Mapping[str, Any]) -> Any:
    """Return the value of a node, or of a field of one; names are those of a source and of FUNCTIONS."""
    if isinstance(node, list):
        return [evaluate(part, names) for part in node]
    if not isinstance(node, ast.AST) or type(node) in OPERATORS:
        return OPERATORS.get(type(node), node)
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if type(node) not in NODES or (isinstance(node, ast.Call) and not isinstance(node.func, ast.Name)):
        raise NameError(f"{getattr(node, 'id', type(node).__name__)} is neither in the source nor allowed")
    fields = [part for name, part in ast.iter_fields(node) if name not in ("ctx", "kind")]
    return NODES[type(node)](*evaluate(fields, names))


def prose(text: str) -> str:
    """Return what a reader sees of a text, in one line."""
    text = INVISIBLE.sub(lambda of: " ".join((of["inline"] or "").split()).translate(HIDDEN), text)
    text = " ".join(MARKUP.sub("", text).replace("|", " | ").split())
    return NAME.sub(lambda of: of.group().translate(HIDDEN), text)


def places(words: str, text: str) -> list[range]:
    """Find words that begin and end where a word or a number does, and not behind a negation."""
    before = r"(?<![\w.,−–+/-])(?<!\b[Nn]o )(?<!\b[Nn]ot )(?<!\b[Nn]ever )"
    behind = rf"(?!\w|[−–-]\w|[.,]\d|(?<=\d)(?: ?[%×]|[\^⁻])|{LARGE})"
    found = re.finditer(f"{before}(?={re.escape(words)}{behind})", text)
    return [range(of.start(), of.start() + len(words)) for of in found]


def same(written: str, value: float) -> bool:
    """Tell whether a number as it is written is the value, rounded to its last digit."""
    word = written.lower()
    text = str(SPELT.index(word) + 2) if word in SPELT else written.translate(str.maketrans("−–", "--", ","))
    right_sign = {"+": value >= 0, "-": value <= 0}.get(text[0], True)
    return right_sign and abs(float(text) - value) <= (0.5 + 1e-9) * 10.0 ** -len(text.partition(".")[2])


def tells(words: str, values: list[Any]) -> bool:
    """Tell whether the bold spans in words or, without any, their cells are the texts of the values, in order."""
    texts = [of.lower() for of in values if isinstance(of, str)]
    bold = [of for of in BOLD.findall(words.lower()) if not NUMBER.search(of)]
    said = bold or [cell.strip() for cell in words.lower().split("|")[1:-1]]
    if not texts:
        return not bold or any(of is True for of in values)
    if bold or len(values) == 1:
        return texts == said and not re.search(r"(?i)\b(?:no|not|never) \*\*", words)
    rest = iter(said)
    return all(text in rest for text in texts)  # each behind the one before


def fault(words: str, expression: str, source: Mapping[str, Any]) -> str:
    """Return what is wrong with a quote; nothing, if it is right."""
    try:
        tree = ast.parse(expression, mode="eval").body
        value = evaluate(tree, {**FUNCTIONS, **source})
        if source.keys().isdisjoint(getattr(of, "id", "") for of in ast.walk(tree)):
            return "an expression without a name of the source"
        values = [*value] if isinstance(value, tuple | list) or getattr(value, "ndim", 0) else [value]
        values = [of.tolist() if hasattr(of, "tolist") else of for of in values]  # NumPy's scalars as Python's
        numbers = [of for of in values if isinstance(of, int | float) and not isinstance(of, bool)]
        known = len(numbers) + sum(of is True or isinstance(of, str) for of in values)
        written = NUMBER.findall(words)
        right = 0 < known == len(values) and len(written) == len(numbers) and all(map(same, written, numbers))
        return "" if right and tells(words, values) else f"the value is {value}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def unquoted(text: str, quoted: set[int]) -> list[str]:
    """Tell of the bold spans of which nothing is quoted, and of the measured numbers that are not quoted wholly."""
    bold = [of for of in BOLD.finditer(text) if quoted.isdisjoint(range(*of.span()))]
    measured = [of for of in MEASURED.finditer(text) if not quoted.issuperset(range(*of.span()))]
    around = [(of.group(), text[max(of.start() - 40, 0) : of.end() + 20].translate(SHOWN)) for of in bold + measured]
    return [f"{what} is in no quote: … {where} …" for what, where in around]


def quotes(page: str) -> list[tuple[str, list[str]]]:
    """Return the source that each comment of a page names, and its quotes, a line each."""
    comments = [of for of in INVISIBLE.finditer(page) if of["source"] is not None]
    return [(of["source"].strip(), [*filter(None, map(str.strip, of["quotes"].splitlines()))]) for of in comments]


def errors(page: str, sources: Mapping[str, Callable[[], Mapping]]) -> list[str]:
    """Return what is wrong with a page, a sentence each: what it quotes wrongly, and what it does not quote.

    sources   by name, functions that return what may be quoted
    """
    text, found, quoted = prose(page), [], set()
    sources = {"paper": dict, **sources}
    for name, lines in quotes(page):
        source: Mapping = {}
        try:
            source = {**sources.get(name, dict)(), "paper": PAPER}
        except InputError:
            raise
        except Exception as error:  # a log that was changed contradicts itself in some way
            found.append(f"quoted from {name}: its logs give no numbers ({type(error).__name__}: {error})")
        if name not in sources:
            found.append(f"quoted from {name}: expected one of {', '.join(sources)}")
        for line in lines:
            words, _, expression = line.rpartition(" = ")
            spans = places(prose(words), text) if words else []
            quoted.update(*spans)
            if len(spans) != 1:
                found.append(f"{line}: these words stand {len(spans)} times on the page")
            if source and name in sources and (wrong := fault(prose(words), expression, source)):
                found.append(f"{line}: {wrong}")
    return found + unquoted(text, quoted)
