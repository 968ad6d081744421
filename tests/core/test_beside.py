"""What stands in front of a text or beside it is not read (fingerprint-spec.md, "Attributes").

Invariant: every page is read by the native core and by the oracle, and both keep the same.
"""

import pytest
from both_readers import kept_words
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

STORY = "".join(f"<p>story{i} of the harbour and its clock</p>" for i in range(20))
NOTICE = "asks " * 30
ASK = [
    'div class="clever-modal"',
    'li class="notice js-notice notice--primary notice--popup"',
    'section CLASS="Newsletter_Consent-Bar  fixed"',
    "div class='x-y-z-a-b-c-d-e-f-g-h-signup'",
    'div class="x" id="Popup"',
    'div class="modal fade"',
    "section id=newsletter-box",
    "div class=site__Popup",
    "ul class='post related posts'",
    "div id=signup",
    'div class="post-author vcard"',
    "section class=bio",
    "div class=article__byline",
    "div class=disclaimer-text",
    'div id="footer-2" class=columns',
    "div class=share",
    "ul class=social-links",
    'li class="widget widget_text"',
    "figcaption",
]
SAY_NOTHING = [
    'article class="post category-popups tag-modals"',
    "div class=cookie-notice",
    "div class=mymodal",
    'div class="popups signup2"',
    "div data-x=popup",
    "div class=modality",
    "div class=newsletters",
    "div class=unrelated",
    "span class=modal",
    "span class=author",
    "div class=widgets",
    "div class=authors",
    'div class="post category-social-media Tag-my-author tag-footer"',
    f'div class="tag-{"x" * 59}-author"',
]
NAMES_TOO_LONG = f'div class="tag-{"x" * 60}-author"'


def kept(html: str) -> set[str]:
    """Return the words that are kept, less the digits at their ends; the oracle must agree."""
    return {word.rstrip("0123456789") for word in kept_words(html)}


@pytest.mark.parametrize("tag", ASK)
def test_what_stands_in_front_of_the_text_is_not_read(tag: str) -> None:
    """Whatever it is called, and where the word stands in the name."""
    assert "asks" not in kept(f"<body><{tag}><p>{NOTICE}</p></{tag.split(maxsplit=1)[0]}>{STORY}")


@pytest.mark.parametrize("tag", SAY_NOTHING)
def test_other_names_with_such_words_are_read(tag: str) -> None:
    """Another attribute, parts of other words, an element within a line."""
    assert "asks" in kept(f"<body><{tag}><p>{NOTICE}</p></{tag.split(maxsplit=1)[0]}>{STORY}")


def test_only_the_name_that_a_word_stands_in_is_looked_at() -> None:
    """Another name beside it may be a tag's; of a long one the last 64 bytes count."""
    for tag in ('div class="tag-x author"', 'div id=author class="tag-x"', NAMES_TOO_LONG):
        assert "asks" not in kept(f"<body><{tag}><p>{NOTICE}</p></div>{STORY}")


def test_what_holds_a_heading_of_the_page_is_read() -> None:
    """Also a later one: a page of an author in a list of them, a page that was not found in a footer."""
    story = STORY + "<h1>One</h1>"
    assert "asks" in kept(f"{story}<div class=footer><h1>Two</h1><p>{NOTICE}</p></div>{STORY}")
    assert "asks" not in kept(f"{story}<div class=footer><h2>Two</h2><p>{NOTICE}</p></div>{STORY}")


def test_names_in_navigation_say_nothing() -> None:
    """Not even of what an item that is navigation does not hold any more."""
    html = f"<ul><li role=navigation>x<li class=author>{NOTICE}</ul>{STORY}"
    assert "asks" in kept(html)


def test_a_page_that_is_all_notice_is_read() -> None:
    """It is a page, too; and a class of the whole page says nothing of a part."""
    assert "asks" in kept(f"<body><div class=popup><p>{NOTICE * 8}</p></div><p>of the harbour</p>")
    assert "story" in kept(f"<body class='modal popup-shown'>{STORY}")


WORDS = st.sampled_from(
    "Notice comment reply x comments2 Modal popup related newsletter signup author Bio byline disclaimer footer share "
    "social widget tag category -- _ c m r".split()
)


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(
            st.lists(WORDS, max_size=7), st.sampled_from("- _ /".split()), st.integers(0, 40)
        ),
        max_size=4,
    )
)
def test_pages_of_names_equal_the_oracle(names: list[tuple[list[str], str, int]]) -> None:
    """Names of all lengths, before and behind whatever else the page has."""
    for words, between, many in names:
        kept(f"<p>a b</p><div class='{between.join(words)}'>{'some ' * many}</div>{STORY}")
