"""Text that others wrote, as it may stand on a terminal."""


def visible(text: object, keep: str = "") -> str:
    """The text with every character that a terminal would act on, or not show, as its escape: ``\\x1b`` and the like.

    Names come from spec files and paths, which may hold anything: escape sequences, line ends, text that runs from
    right to left, halves of characters. Those in `keep` stay.
    """
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode("ascii")
        for letter in str(text)
    )
