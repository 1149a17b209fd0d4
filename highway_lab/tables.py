"""Tables of pages, in Markdown."""


def markdown(header: list[str], rows: list[list[str]], *, words: bool = False) -> str:
    """Return a Markdown table; the first column is aligned left, all others right unless they hold `words`."""
    rule = [":--", *[":--" if words else "--:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))
