"""What documents, namespaces and sites are called."""

from unittest import mock
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from w3lib.url import canonicalize_url

import dedup.model.names
from dedup.model.names import document_key, folder_of, namespace_of, registrable_domain


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("http://www.example.co.uk:8080/a?b", "example.co.uk"),
        ("https://EXAMPLE.com./", "example.com"),
        ("http://user:pass@a.b.example.org/", "example.org"),
        ("http://www.example.com:80@a.b.example.org/", "example.org"),
        ("http://www.example.com\\@example.org/", "example.org"),
        ("http://www.example.com?q=@example.org", "example.com"),
        ("http://www.example.com\n", "example.com"),
        ("http://127.0.0.1:8000/", "127.0.0.1"),
        ("http://[::1]:8000/", "::1"),
        ("http://localhost:8000/", "localhost"),
        ("http://wiki.intranet/", "wiki.intranet"),
        ("http://co.uk/", "co.uk"),
        ("http://bücher.de/", "xn--bcher-kva.de"),
        ("http://xn--bcher-kva.de/", "xn--bcher-kva.de"),
        ("a key of one's own", ""),
        ("http://[", ""),
        ("", ""),
    ],
)
def test_registrable_domains(url, domain):
    """The registrable domain of a URL, or its host, or nothing."""
    assert registrable_domain(url) == domain


SOME = "abzAZ09-_.~/%&=?#+:;@ é"
hosts = st.one_of(
    st.sampled_from(["example.com", "a.b.example.co.uk", "127.0.0.1", "localhost", "[::1]"]),
    st.text("abx-.09N", max_size=12),
)
paths = st.lists(st.one_of(st.text("aZ9-_.~", max_size=4), st.text(SOME, max_size=3)), max_size=4)
arguments = st.tuples(st.text("aB1-_.~", max_size=2), st.sampled_from(["=", "=", ""]))
queries = st.lists(st.tuples(arguments, st.one_of(st.text("aB1.~", max_size=2), st.text(SOME))))


@settings(max_examples=examples(1000), deadline=None)
@given(
    scheme=st.sampled_from(["http", "https", "HTTP", "ftp"]),
    host=hosts,
    port=st.sampled_from(["", "", ":80", ":8080", ":080", ":65535", ":59999", ":"]),
    path=paths,
    query=queries.map(lambda parts: "&".join(name + eq + value for (name, eq), value in parts)),
    mark=st.sampled_from(["", "?"]),
)
def test_document_keys_are_what_w3lib_makes_of_a_url(scheme, host, port, path, query, mark):
    """A URL that is taken for canonical at first sight is one."""
    url = f"{scheme}://{host}{port}/{'/'.join(path)}{mark}{query if mark else ''}"
    try:
        expected = canonicalize_url(url)
    except ValueError as error:
        with pytest.raises(type(error)):
            document_key(url)
    else:
        assert document_key(url) == expected


SLOW = st.sampled_from(["http://", "https://", "HTTP://", " http://", "http:", "//", "http:///"])


@settings(max_examples=examples(500), deadline=None)
@given(
    begin=SLOW,
    host=hosts,
    rest=st.text("ab/?#:@[];%. \t\n\x00é-9", max_size=12),
)
def test_hosts_and_folders_are_what_urlsplit_makes_of_a_url(begin, host, rest):
    """Those of URLs that are taken apart at first sight, and of all others."""
    url = begin + host + rest
    try:
        split = urlsplit(url)
        expected, folder = split.hostname or "", split.path.rpartition("/")[0] + "/"
    except ValueError:
        expected, folder = "", "/"
    assert folder_of(url) == folder
    with mock.patch.object(dedup.model.names, "_domain_of_host", lambda host: host):
        assert registrable_domain(url) == expected


@pytest.mark.parametrize(
    ("name", "namespace"),
    [("news", "news"), ("my spider/é", "my-spider--"), (".x", "-x"), ("a" * 70, "a" * 64)],
)
def test_a_spiders_name_becomes_a_namespace(name, namespace):
    """Characters that a namespace does not take become "-"."""
    assert namespace_of(name) == namespace
