"""The pages have none of the phrases that a native writer would not use.

proselint knows none of these, takes "resume" for "résumé" and code for prose; Vale's package
downloads a program when it runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers import ROOT

PAGES = sorted(
    page
    for pattern in ("*.md", "apps/*/README.md", "docs/*.md", "docs/reference/*.md")
    for page in ROOT.glob(pattern)
)
PHRASES = {
    r"\bwho \w+s (gets|has|is)\b": "someone who …; clients that …",
    r"\bwhat (came in|has come|arrived)\b": "the messages that …",
    r"\b(is|are|was|were|been|be) told\b(?! apart)": "receives, learns",
    r"\b(go|goes|went|going) on\b": "continues, resumes, stays up",
    r"\bthe one of\b": "that of, or the noun again",
    r"\bholds? (nobody|no one|none) up\b": "does not delay others",
    r"\bin the place of\b": "instead of; expected …, found …",
    r"\bas long as it takes\b": "until",
    r"\bat fault (itself|themselves)\b": "invalid",
    r"\bis one too many\b": "exceeds the limit",
    r"\bleft to (itself|themselves)\b": "is abandoned",
    r"\bends what is\b": "finishes in-flight work",
    r"\bthat is away\b": "unreachable, unavailable",
    r"\bto this come\b": "add",
    r"\bsaid of\b": "claims about",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bswallows\b": "drops all packets",
    r"\bhas (a|an) own\b": "has its own",
    r"\b(real-time|micro-batch) engine\b": "the engine: there is one",
}
"""What to write instead, by pattern."""
EXCEPTIONS = {
    ("guarantees.md", "micro-batch engine"): "state directories that are refused by this name",
    ("troubleshooting.md", "micro-batch engine"): "the same",
}
_NO_PROSE = re.compile(
    r'^ *```.*?^ *```$|`[^`\n]*`|"[^"]{1,200}"|\]\([^)]*\)', re.DOTALL | re.MULTILINE
)


def prose(page: Path) -> str:
    """The text of *page* in one line, without code, quotations and the targets of links."""
    return " ".join(_NO_PROSE.sub(" ", page.read_text()).split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_phrase_for_which_there_is_a_better_one(page: Path) -> None:
    text = prose(page)
    found = {
        text[max(0, match.start() - 40) : match.end() + 40]: instead
        for pattern, instead in PHRASES.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
        if (page.name, match.group()) not in EXCEPTIONS
    }
    assert not found
